"""The data side of a load: writes one padding vector or one beat per cycle, in the order of the scratchpad."""

from collections.abc import Sequence
from typing import Any

from amaranth import Elaboratable, Module, Mux, Signal

from lathe.isa.table import MemoryType
from lathe.rtl.derived_widths import Geometry, log2
from lathe.rtl.dma_descriptor import by_memory, transfer_layout
from lathe.rtl.fifo import Fifo
from lathe.rtl.padding import padding_signal
from lathe.rtl.struct_signal import structured
from lathe.rtl.up_down_counter import UpDownCounter


class BeatWrite:
    """A write of a data side to a scratchpad, before it is mapped to banks.

    `address`: the position in the scratchpad, in DRAM bytes, of byte `offset` of the beat; `size` bytes are written.
    With `pad`, the vector at `address` becomes padding instead: zeros, or what `padding` says on machines that have it.
    """

    def __init__(self, geometry: Geometry, memories: Sequence[MemoryType]) -> None:
        self.en = Signal()
        self.pad = Signal()
        self.padding = padding_signal(geometry)
        self.memory = Signal(3)
        self.address = Signal(geometry.byte_bits(memories))
        self.offset = Signal(range(geometry.bus_bytes))
        self.size = Signal(range(geometry.bus_bytes + 1))
        self.data = Signal(geometry.bus_bits)

    @property
    def signals(self) -> list[Signal]:
        """All signals of the write."""
        signals = [self.en, self.pad, self.memory, self.address, self.offset, self.size, self.data]
        return signals if self.padding is None else [*signals, self.padding]


class DataSide(Elaboratable):
    """Carries out transfers in order, from the cycle after their start on; a step is a cycle with a write.

    `start` with `transfer` adds a transfer; `count` of them are queued or in progress, `full` when these are `pending`.
    `beat_valid` with `beat` is the head of the data FIFO, and `take` removes it. No step is taken in `hold`. `write` is
    the step's write. `step` marks each step, `last` a transfer's last one, with its `pushes`; `wait` marks a cycle in
    which a beat is missing.
    """

    def __init__(self, geometry: Geometry, memories: Sequence[MemoryType], pending: int) -> None:
        self.geometry, self.memories, self.pending = geometry, memories, pending
        self.start = Signal()
        self.transfer = structured(transfer_layout(geometry, memories))
        self.stop = Signal()
        self.hold = Signal()
        self.beat_valid = Signal()
        self.beat = Signal(geometry.bus_bits)
        self.take = Signal()
        self.write = BeatWrite(geometry, memories)
        self.step = Signal()
        self.wait = Signal()
        self.last = Signal()
        self.pushes = Signal(2)
        self.tally = UpDownCounter(pending, "under_way")
        self.count, self.full = self.tally.count, self.tally.full

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        geometry, write, bus = self.geometry, self.write, self.geometry.bus_bytes
        # The current transfer, and its remaining padding, chains and bytes.
        here = Signal()
        now = structured(self.transfer.shape(), "now", reset=False)
        pads = Signal.like(now.lead)
        chains = Signal(16)
        rest = Signal.like(now.chain_bytes, reset_less=True)
        offset = Signal(range(bus))
        first_offset = Signal(range(bus))
        address = Signal.like(write.address, reset_less=True)

        room = Signal(range(bus + 1))
        chain_ends = Signal()  # with the next beat: the rest of the chain fits into it
        m.d.comb += [
            room.eq(bus - offset),
            write.address.eq(address),
            write.memory.eq(now.memory),
            write.offset.eq(offset),
            write.size.eq(Mux(chain_ends, rest, room)),
            write.data.eq(self.beat),
            self.pushes.eq(now.pushes),
        ]
        if write.padding is not None:
            m.d.comb += write.padding.eq(now.padding)
        element = Signal(range(1 << max(geometry.shift(kind) for kind in self.memories) + 1))
        sizes = [1 << geometry.shift(kind) for kind in self.memories]
        by_memory(m, now.memory, self.memories, element, sizes)
        next_offset = Signal(range(bus))
        m.d.comb += next_offset.eq(first_offset + now.stride_bytes)
        with m.If(here & ~self.stop & ~self.hold):
            with m.If(now.nothing):
                m.d.comb += [self.step.eq(1), self.last.eq(1)]
            with m.Elif(pads != 0):
                m.d.comb += [
                    self.step.eq(1),
                    write.en.eq(1),
                    write.pad.eq(1),
                    self.last.eq((pads == 1) & (chains == 0)),
                ]
                m.d.sync += [pads.eq(pads - 1), address.eq(address + element)]
            with m.Elif(self.beat_valid):
                m.d.comb += [self.step.eq(1), write.en.eq(1), self.take.eq(1)]
                m.d.sync += [address.eq(address + write.size), offset.eq(0), rest.eq(rest - write.size)]
                m.d.sync += chain_ends.eq(rest + offset <= 2 * bus)
                with m.If(chain_ends):
                    m.d.sync += [
                        chains.eq(chains - 1),
                        rest.eq(now.chain_bytes),
                        offset.eq(next_offset),
                        first_offset.eq(next_offset),
                        chain_ends.eq(now.chain_bytes + next_offset <= bus),
                    ]
                    with m.If(chains == 1):
                        m.d.comb += self.last.eq(now.tail == 0)
                        m.d.sync += pads.eq(now.tail)
                    with m.Else():
                        m.d.sync += pads.eq(now.gap)
            with m.Else():
                m.d.comb += self.wait.eq(1)

        following, follows = self._queue(m, here)
        self.tally.drive(m, self.start, self.last)
        with m.If(self.last | ~here):
            m.d.sync += here.eq(follows)
            with m.If(follows):
                m.d.sync += [
                    now.eq(following),
                    pads.eq(following.lead),
                    chains.eq(following.chains),
                    rest.eq(following.chain_bytes),
                    offset.eq(following.address),  # the low bits
                    first_offset.eq(following.address),
                    chain_ends.eq(following.chain_bytes + following.address[: log2(bus)] <= bus),
                    address.eq(following.sram),
                ]
        return m

    def _queue(self, m: Module, here: Signal) -> tuple[Any, Signal]:
        """The next transfer, queued or starting now, and whether there is one."""
        if self.pending == 1:
            return self.transfer, self.start
        following = structured(self.transfer.shape(), "following")
        follows = Signal()
        m.submodules.waiting = waiting = Fifo(len(self.transfer.as_value()), self.pending - 1)
        advance = self.last | ~here
        with m.If(waiting.r_valid):
            m.d.comb += [following.eq(waiting.r_data), follows.eq(1), waiting.r_en.eq(advance)]
            m.d.comb += waiting.w_en.eq(self.start)
        with m.Else():
            m.d.comb += [following.eq(self.transfer), follows.eq(self.start)]
            m.d.comb += waiting.w_en.eq(self.start & ~advance)
        m.d.comb += waiting.w_data.eq(self.transfer)
        return following, follows
