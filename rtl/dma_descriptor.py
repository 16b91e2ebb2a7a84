"""DMA descriptors: LOAD and STORE as contiguous byte ranges (chains), for address sides, data sides and store."""

from collections.abc import Sequence

from amaranth import Elaboratable, Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib import data

from lathe.isa.constraints import ELEMENTS, MOVES, READS_DRAM, ROWS, STARTING, WIDTH, X_PADS
from lathe.isa.table import MemoryType, Opcode
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.instruction import StageReader
from lathe.rtl.padding import BITS, has_padding, padding_of
from lathe.rtl.stall import CommandPort
from lathe.rtl.struct_signal import structured


def transfer_layout(geometry: Geometry, memories: Sequence[MemoryType]) -> data.StructLayout:
    """The fields of a descriptor. Sizes are bounded by the scratchpads, since larger ones fault.

    ``memory``: the memory type; ``address``: first byte in DRAM; ``chains``: number of contiguous byte ranges;
    ``chain_bytes``: size of each; ``stride_bytes``: between their starts; ``sram``: start in the scratchpad, in DRAM
    bytes; ``lead``, ``gap``, ``tail``: padding vectors before the first chain, between chains, after the last one;
    ``nothing``: no vector is moved; ``pushes``: tokens to push at the end, to the previous and to the next unit;
    ``padding``: the contents of padding, on machines with these fields.
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
            "lead": geometry.vector_count_bits,
            "gap": 5,
            "tail": geometry.vector_count_bits,
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
    """Decodes the command at a port's end into its `transfer`, and whether that `overruns` its scratchpad.

    Decoding takes three stages, in step with the command: sums of fields, products, and the descriptor.
    """

    def __init__(self, geometry: Geometry, opcode: Opcode, memories: Sequence[MemoryType], port: CommandPort) -> None:
        self.geometry, self.opcode, self.memories, self.port = geometry, opcode, memories, port
        self.transfer = structured(transfer_layout(geometry, memories), reset=False)
        self.overruns = Signal()

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        words, advance = self.port.words, self.port.advance
        first = StageReader(m, self.geometry.config, self.opcode, words[0])
        sums = (MOVES, READS_DRAM, X_PADS, WIDTH, ROWS)
        fields = first.view
        one_chain = (fields.y_size == 1) | (
            (fields.x_stride == fields.x_size) & ((fields.x_pad_0 == 0) & (fields.x_pad_1 == 0))
        )
        merged = first.registered("merged", one_chain, advance[0])
        known = {named.name: first.registered(named.name, named.evaluate(first), advance[0]) for named in sums}

        second = StageReader(m, self.geometry.config, self.opcode, words[1], known)
        fields = second.view
        width = known[WIDTH.name]
        elements = second.registered(ELEMENTS.name, ELEMENTS.evaluate(second), advance[1])
        chain = second.registered("chain", fields.x_size * Mux(merged, fields.y_size, 1), advance[1])
        above = second.registered("above", fields.y_pad_0 * width, advance[1])
        below = second.registered("below", fields.y_pad_1 * width, advance[1])
        chains = second.registered("chains", Mux(known["in_dram"], Mux(merged, 1, fields.y_size), 0), advance[1])
        known = {
            ELEMENTS.name: elements,
            **{name: second.registered(name, known[name], advance[1]) for name in ("moves", "in_dram", "x_pads")},
        }

        third = StageReader(m, self.geometry.config, self.opcode, words[2], known)
        self._last(m, third, chain, chains, above, below)
        return m

    def _last(
        self, m: Module, reader: StageReader, chain: Signal, chains: Signal, above: Signal, below: Signal
    ) -> None:
        """The third stage: the descriptor, from the word of a command and its sums and products."""
        fields = reader.view
        moves, reads, gap, elements = (
            expression.evaluate(reader) for expression in (MOVES, READS_DRAM, X_PADS, ELEMENTS)
        )
        descriptor = structured(self.transfer.shape(), name="made")
        overruns = Signal(name="overruns_next")
        memory = Signal(3)
        m.d.comb += memory.eq(fields.memory_type)
        rules = [rule for rule in STARTING if rule.opcode is self.opcode]
        ranges = {kind: rule.broken.evaluate(reader) for rule in rules for kind in rule.memories or ()}
        by_memory(m, memory, self.memories, overruns, [ranges[kind] for kind in self.memories])
        for name, value in (
            ("address", fields.dram_base),
            ("chain_bytes", chain),
            ("stride_bytes", fields.x_stride),
            ("sram", fields.sram_base),
        ):
            shifted = [value << self.geometry.shift(kind) for kind in self.memories]
            by_memory(m, memory, self.memories, descriptor[name], shifted)
        m.d.comb += [
            descriptor.memory.eq(memory),
            descriptor.chains.eq(chains),
            descriptor.lead.eq(Mux(moves, above + Mux(reads, fields.x_pad_0, below), 0)),
            descriptor.gap.eq(gap),
            descriptor.tail.eq(Mux(reads, fields.x_pad_1 + below, 0)),
            descriptor.nothing.eq(~moves | (elements == 0)),
            descriptor.pushes.eq(fields.push_prev | (fields.push_next << 1)),
        ]
        if self.opcode is Opcode.LOAD and has_padding(self.geometry):
            m.d.comb += descriptor.padding.eq(padding_of(fields))
        with m.If(self.port.advance[2]):
            m.d.sync += [self.transfer.eq(descriptor), self.overruns.eq(overruns)]
