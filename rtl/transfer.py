"""LOAD and STORE as chains of bytes: what address sides, data sides and packers work from."""

from collections.abc import Sequence

from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib import data

from lathe.configs.encoding import INSTRUCTION_BITS
from lathe.isa.legality import ELEMENTS, MOVES, READS_DRAM, STARTING, WIDTH, X_PADS
from lathe.isa.table import MemoryType, Opcode
from lathe.rtl.geometry import Geometry
from lathe.rtl.instruction import WordReader
from lathe.rtl.padding import BITS, has_padding, padding_of
from lathe.rtl.structure import structured


def transfer_layout(geometry: Geometry, memories: Sequence[MemoryType]) -> data.StructLayout:
    """The layout of a transfer. Sizes are bounded by the scratchpads, for greater ones are faults.

    ``memory``: the memory type; ``address``: first byte in DRAM; ``chains``: how many; ``chain_bytes``: of each;
    ``stride_bytes``: from one to the next; ``sram``: where it begins in the scratchpad, in bytes as DRAM has them;
    ``lead``, ``gap``, ``tail``: elements of padding before the first chain, between chains, after the last one;
    ``nothing``: no element is moved at all; ``pushes``: the tokens to push when done, previous unit and next unit;
    ``padding``: what padding holds, on machines that have such a field.
    """
    bytes_bits = geometry.byte_bits(memories)
    return data.StructLayout(
        {
            "memory": 3,
            "address": geometry.address_bits,
            "chains": 16,
            "chain_bytes": bytes_bits,
            "stride_bytes": 16 + max(geometry.shift(memory) for memory in memories),
            "sram": bytes_bits,
            "lead": geometry.element_count_bits,
            "gap": 5,
            "tail": geometry.element_count_bits,
            "nothing": 1,
            "pushes": 2,
            **({"padding": BITS} if has_padding(geometry) and MemoryType.OUT not in memories else {}),
        }
    )


def by_memory(
    m: Module, memory: Signal, memories: Sequence[MemoryType], target: Signal, choices: Sequence[Value | int]
) -> None:
    """Drive `target` with the choice of the memory type that the signal `memory` holds."""
    with m.Switch(memory):
        for kind, choice in zip(memories, choices, strict=True):
            with m.Case(kind):
                m.d.comb += target.eq(choice)


class TransferDecoder(Elaboratable):
    """From an instruction word to a transfer, and whether it `overruns` its scratchpad. Combinational."""

    def __init__(self, geometry: Geometry, opcode: Opcode, memories: Sequence[MemoryType]) -> None:
        self.geometry, self.opcode, self.memories = geometry, opcode, memories
        self.word = Signal(INSTRUCTION_BITS)
        self.transfer = structured(transfer_layout(geometry, memories))
        self.overruns = Signal()

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        config = self.geometry.config
        reader = WordReader(m, config, self.opcode, self.word)
        fields = reader.view
        moves, reads, gap, width, elements = (
            expression.on(reader) for expression in (MOVES, READS_DRAM, X_PADS, WIDTH, ELEMENTS)
        )
        merged = Signal()
        chain = Signal(32)
        m.d.comb += [
            merged.eq((fields.y_size == 1) | ((fields.x_stride == fields.x_size) & (gap == 0))),
            chain.eq(fields.x_size * Mux(merged, fields.y_size, 1)),
        ]
        memory = Signal(3)
        m.d.comb += memory.eq(fields.memory_type)
        rules = [rule for rule in STARTING if rule.opcode is self.opcode]
        ranges = {kind: rule.broken.on(reader) for rule in rules for kind in rule.memories or ()}
        by_memory(m, memory, self.memories, self.overruns, [ranges[kind] for kind in self.memories])
        transfer = self.transfer
        for name, value in (
            ("address", fields.dram_base),
            ("chain_bytes", chain),
            ("stride_bytes", fields.x_stride),
            ("sram", fields.sram_base),
        ):
            shifted = [value << self.geometry.shift(kind) for kind in self.memories]
            by_memory(m, memory, self.memories, transfer[name], shifted)
        below = fields.y_pad_1 * width
        m.d.comb += [
            transfer.memory.eq(memory),
            transfer.chains.eq(Mux(reads, Mux(merged, 1, fields.y_size), 0)),
            transfer.lead.eq(Mux(moves, fields.y_pad_0 * width + Mux(reads, fields.x_pad_0, below), 0)),
            transfer.gap.eq(gap),
            transfer.tail.eq(Mux(reads, fields.x_pad_1 + below, 0)),
            transfer.nothing.eq(~moves | (elements == 0)),
            transfer.pushes.eq(fields.push_prev | (fields.push_next << 1)),
        ]
        if self.opcode is Opcode.LOAD and has_padding(self.geometry):
            m.d.comb += transfer.padding.eq(padding_of(fields))
        return m
