"""The instruction table, the memory types, and the token queues between units.

Encoder, decoder, assembler, verifier, simulators, RTL and the manual read these tables. The rows are in
:mod:`lathe.configs.instructions` and the ALU operations in :mod:`lathe.configs.alu_operations`, since machines are
checked against them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from types import MappingProxyType

from lathe.configs import HardwareConfig
from lathe.configs.alu_operations import AluOp
from lathe.configs.encoding import LOOKUP, RESCALE, UOP_FORMAT, WORD_BITS, Placement, pack_fields
from lathe.configs.instructions import TABLE
from lathe.configs.instructions.codes import MemoryType, Opcode, Unit
from lathe.configs.instructions.row import Kind, Row

__all__ = [
    "MEMORIES",
    "MOST_TOKENS",
    "QUEUE_OF",
    "TABLE",
    "TOKEN_BITS",
    "TOKEN_FIELDS",
    "AluOp",
    "Kind",
    "Memory",
    "MemoryType",
    "Opcode",
    "Row",
    "TokenQueue",
    "Unit",
    "alu_operations",
    "instructions_of",
    "memories_of",
    "placements",
    "uop_placements",
]


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


# A queue is a counter of this many bits, since tokens carry no data.
TOKEN_BITS = 16
MOST_TOKENS = (1 << TOKEN_BITS) - 1

TOKEN_FIELDS = ("pop_prev", "pop_next", "push_prev", "push_next")

# The queue that a token field of a unit refers to; a missing field refers to no neighbour.
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
class Memory:
    """One memory type: its scratchpad, the unit that executes a LOAD of it, its sizes, and a description.

    ``extension``: the extension that it requires, if any.
    """

    type: MemoryType
    scratchpad: str
    load_unit: Unit
    element_bytes: Callable[[HardwareConfig], int]
    depth: Callable[[HardwareConfig], int]
    what: str
    extension: str | None = None


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
                "32-bit micro-ops",
            ),
            Memory(
                MemoryType.WGT,
                "wgt",
                Unit.LOAD,
                lambda cfg: cfg.wgt_element_bytes,
                lambda cfg: cfg.wgt_depth,
                "weights, block_out × block_in 8-bit values",
            ),
            Memory(
                MemoryType.INP,
                "inp",
                Unit.LOAD,
                lambda cfg: cfg.inp_element_bytes,
                lambda cfg: cfg.inp_depth,
                "inputs, batch × block_in 8-bit values",
            ),
            Memory(
                MemoryType.ACC,
                "acc",
                Unit.COMPUTE,
                lambda cfg: cfg.acc_element_bytes,
                lambda cfg: cfg.acc_depth,
                "accumulators, batch × block_out 32-bit values",
            ),
            Memory(
                MemoryType.OUT,
                "out",
                Unit.COMPUTE,
                lambda cfg: cfg.out_element_bytes,
                lambda cfg: cfg.out_depth,
                "the low 8 bits of the accumulators; for STORE only",
            ),
            Memory(
                MemoryType.ACC8,
                "acc",
                Unit.COMPUTE,
                lambda cfg: cfg.acc8_element_bytes,
                lambda cfg: cfg.acc_depth,
                "accumulators in 8 bits in DRAM, sign-extended by the LOAD",
            ),
            Memory(
                MemoryType.PAR,
                "par",
                Unit.COMPUTE,
                lambda cfg: cfg.par_element_bytes,
                lambda cfg: cfg.par_depth,
                "parameters of RESCALE, block_out pairs of 32 bits: the bias; shift (bits 0–5) and signed mantissa",
                RESCALE,
            ),
            Memory(
                MemoryType.LUT,
                "lut",
                Unit.COMPUTE,
                lambda cfg: cfg.lut_element_bytes,
                lambda cfg: cfg.lut_depth,
                "look-up tables, block_out 8-bit values; vector v of a table's 256 has the lanes' entries for v",
                LOOKUP,
            ),
        )
    }
)


@lru_cache(maxsize=256)
def instructions_of(config: HardwareConfig) -> tuple[Opcode, ...]:
    """The instructions of a machine."""
    return tuple(opcode for opcode, row in TABLE.items() if row.extension is None or row.extension in config.extensions)


@lru_cache(maxsize=256)
def memories_of(config: HardwareConfig) -> tuple[Memory, ...]:
    """The memory types of a machine."""
    return tuple(
        memory for memory in MEMORIES.values() if memory.extension is None or memory.extension in config.extensions
    )


@lru_cache(maxsize=256)
def alu_operations(config: HardwareConfig) -> tuple[AluOp, ...]:
    """The ALU operations of a machine."""
    return tuple(each for each in AluOp if each.extension is None or each.extension in config.extensions)


@lru_cache(maxsize=256)
def placements(config: HardwareConfig, opcode: Opcode) -> Mapping[str, Placement]:
    """The bits of each field of an instruction on a machine, by field name, in packing order."""
    packed = pack_fields(TABLE[opcode].format.fields, WORD_BITS, config)
    return MappingProxyType({placement.field.name: placement for placement in packed})


@lru_cache(maxsize=256)
def uop_placements(config: HardwareConfig) -> Mapping[str, Placement]:
    """The bits of each field of a micro-op on a machine, by field name."""
    packed = pack_fields(UOP_FORMAT.fields, UOP_FORMAT.word_bits, config)
    return MappingProxyType({placement.field.name: placement for placement in packed})
