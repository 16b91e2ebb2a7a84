"""The one table of instructions: opcodes, operands, units, formats and the memories they address.

Encoder, decoder, assembler, verifier, simulators, RTL and the manual read this table. The fields of each format and
their widths stand in :mod:`lathe.configs.encoding`, where a machine checks that they fit, and the operations of the ALU
in :mod:`lathe.configs.alu_operations`, since a machine says which it has.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from types import MappingProxyType

from lathe.configs import HardwareConfig
from lathe.configs.alu_operations import AluOp
from lathe.configs.encoding import (
    ALU,
    BARE,
    GEMM,
    LOAD,
    STORE,
    UOP_FORMAT,
    WORD_BITS,
    Format,
    Placement,
    place,
)

__all__ = [
    "MEMORIES",
    "MOST_TOKENS",
    "QUEUE_OF",
    "TABLE",
    "TOKEN_BITS",
    "TOKEN_FIELDS",
    "AluOp",
    "Memory",
    "MemoryType",
    "Opcode",
    "Row",
    "TokenQueue",
    "Unit",
    "alu_operations",
    "placements",
    "uop_placements",
]


class Opcode(IntEnum):
    """What an instruction does; 5, 6 and 7 are free."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4


class MemoryType(IntEnum):
    """What a LOAD or STORE moves: the scratchpad, and how DRAM holds its elements; 6 and 7 are free."""

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC8 = 5


class Unit(IntEnum):
    """The units that execute instructions, in the order that "prev" and "next" of the token fields mean."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2


class TokenQueue(IntEnum):
    """The four queues of dependence tokens, in the order in which a launch takes and returns their counts."""

    LOAD_TO_COMPUTE = 0
    COMPUTE_TO_LOAD = 1
    COMPUTE_TO_STORE = 2
    STORE_TO_COMPUTE = 3

    @property
    def arrow(self) -> str:
        """The queue as text: "load->compute"."""
        return self.name.lower().replace("_to_", "->")


# A queue counts its tokens, which carry nothing else, in as many bits.
TOKEN_BITS = 16
MOST_TOKENS = (1 << TOKEN_BITS) - 1

TOKEN_FIELDS = ("pop_prev", "pop_next", "push_prev", "push_next")

# The queue that a token field of a unit names; a field that is missing here names no neighbour.
QUEUE_OF: Mapping[tuple[Unit, str], TokenQueue] = MappingProxyType(
    {
        (Unit.LOAD, "pop_next"): TokenQueue.COMPUTE_TO_LOAD,
        (Unit.LOAD, "push_next"): TokenQueue.LOAD_TO_COMPUTE,
        (Unit.COMPUTE, "pop_prev"): TokenQueue.LOAD_TO_COMPUTE,
        (Unit.COMPUTE, "pop_next"): TokenQueue.STORE_TO_COMPUTE,
        (Unit.COMPUTE, "push_prev"): TokenQueue.COMPUTE_TO_LOAD,
        (Unit.COMPUTE, "push_next"): TokenQueue.COMPUTE_TO_STORE,
        (Unit.STORE, "pop_prev"): TokenQueue.COMPUTE_TO_STORE,
        (Unit.STORE, "push_prev"): TokenQueue.STORE_TO_COMPUTE,
    }
)


@dataclass(frozen=True, slots=True)
class Row:
    """One instruction: its opcode, the format of its fields, who executes it, and what it does, for the manual."""

    opcode: Opcode
    format: Format
    units: str
    what: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory type: the scratchpad behind it, the unit that a LOAD of it runs in, its sizes, and a description."""

    type: MemoryType
    scratchpad: str
    load_unit: Unit
    element_bytes: Callable[[HardwareConfig], int]
    depth: Callable[[HardwareConfig], int]
    what: str


MEMORIES: Mapping[MemoryType, Memory] = MappingProxyType(
    {
        memory.type: memory
        for memory in (
            Memory(
                MemoryType.UOP,
                "uop",
                Unit.COMPUTE,
                lambda cfg: cfg.uop_element_bytes,
                lambda cfg: cfg.uop_depth,
                "micro-ops of 32 bits",
            ),
            Memory(
                MemoryType.WGT,
                "wgt",
                Unit.LOAD,
                lambda cfg: cfg.wgt_element_bytes,
                lambda cfg: cfg.wgt_depth,
                "weights, block_out × block_in values of 8 bits",
            ),
            Memory(
                MemoryType.INP,
                "inp",
                Unit.LOAD,
                lambda cfg: cfg.inp_element_bytes,
                lambda cfg: cfg.inp_depth,
                "inputs, batch × block_in values of 8 bits",
            ),
            Memory(
                MemoryType.ACC,
                "acc",
                Unit.COMPUTE,
                lambda cfg: cfg.acc_element_bytes,
                lambda cfg: cfg.acc_depth,
                "accumulators, batch × block_out values of 32 bits",
            ),
            Memory(
                MemoryType.OUT,
                "out",
                Unit.COMPUTE,
                lambda cfg: cfg.out_element_bytes,
                lambda cfg: cfg.out_depth,
                "the low 8 bits of the accumulators; only STORE takes it",
            ),
            Memory(
                MemoryType.ACC8,
                "acc",
                Unit.COMPUTE,
                lambda cfg: cfg.acc8_element_bytes,
                lambda cfg: cfg.acc_depth,
                "accumulators held in DRAM as 8 bits, sign-extended when loaded",
            ),
        )
    }
)

_LOOP = (
    "for o in range(iter_out):\n"
    "    for i in range(iter_in):\n"
    "        for u in range(uop_bgn, uop_end):\n"
    "            dst = uop[u].dst + o * dst_factor_out + i * dst_factor_in\n"
    "            src = uop[u].src + o * src_factor_out + i * src_factor_in\n"
)

TABLE: Mapping[Opcode, Row] = MappingProxyType(
    {
        row.opcode: row
        for row in (
            Row(
                Opcode.LOAD,
                LOAD,
                "load for inp and wgt, compute for uop, acc and acc8",
                "Copies rows of elements from DRAM into a dense block of a scratchpad, with padding around them.",
                "at = sram_base\n"
                "if x_size > 0:\n"
                "    for y in range(-y_pad_0, y_size + y_pad_1):\n"
                "        for x in range(-x_pad_0, x_size + x_pad_1):\n"
                "            inside = 0 <= y < y_size and 0 <= x < x_size\n"
                "            scratchpad[at] = dram[dram_base + y * x_stride + x] if inside else padding\n"
                "            at += 1",
            ),
            Row(
                Opcode.STORE,
                STORE,
                "store",
                "Copies a dense block of the out view of the accumulators into rows in DRAM. Memory type out, no pads.",
                "for y in range(y_size):\n"
                "    for x in range(x_size):\n"
                "        dram[dram_base + y * x_stride + x] = low_8_bits(acc[sram_base + y * x_size + x])",
            ),
            Row(
                Opcode.GEMM,
                GEMM,
                "compute",
                "Multiplies inputs with transposed weights; adds products to accumulators, or writes them, or zeros.",
                _LOOP + "            wgt = uop[u].wgt + o * wgt_factor_out + i * wgt_factor_in\n"
                "            addend = 0 if begin else acc[dst]\n"
                "            acc[dst] = 0 if reset else wrap32(addend + inp[src] @ transpose(wgt_memory[wgt]))",
            ),
            Row(
                Opcode.FINISH,
                BARE,
                "compute",
                "Marks the end of the stream in compute; a launch ends when it is executed and every unit is idle.",
                "finished = True",
            ),
            Row(
                Opcode.ALU,
                ALU,
                "compute",
                "Combines each accumulator with an immediate or with another accumulator, value by value.",
                _LOOP + "            acc[dst] = operation(acc[dst], imm if use_imm else acc[src])",
            ),
        )
    }
)


@lru_cache(maxsize=256)
def alu_operations(config: HardwareConfig) -> tuple[AluOp, ...]:
    """The ALU operations that a machine has."""
    return tuple(each for each in AluOp if each.extension is None or each.extension in config.extensions)


@lru_cache(maxsize=256)
def placements(config: HardwareConfig, opcode: Opcode) -> Mapping[str, Placement]:
    """Where the machine has each field of an instruction: bits of the 128, by field name, in the order of packing."""
    packed = place(TABLE[opcode].format.fields, WORD_BITS, config)
    return MappingProxyType({placement.field.name: placement for placement in packed})


@lru_cache(maxsize=256)
def uop_placements(config: HardwareConfig) -> Mapping[str, Placement]:
    """Where the machine has each field of a micro-op: bits of the 32, by field name."""
    packed = place(UOP_FORMAT.fields, UOP_FORMAT.word_bits, config)
    return MappingProxyType({placement.field.name: placement for placement in packed})
