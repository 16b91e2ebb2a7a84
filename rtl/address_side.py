"""The address side of a read master: bursts of a transfer, one request per cycle, and the credits of its FIFO."""

from collections.abc import Sequence

from amaranth import Elaboratable, Module, Signal

from lathe.isa.table import MemoryType
from lathe.rtl.burst import BurstCutter
from lathe.rtl.geometry import Geometry
from lathe.rtl.structure import structured
from lathe.rtl.transfer import transfer_layout


class Credits(Elaboratable):
    """Beats of a FIFO that are spoken for. A burst's beats are taken at its grant and given back with its last beat.

    `fits` tells whether `wanted` beats have room. `take` takes them; `beat` is a beat that leaves the FIFO, with
    `last` when it is its burst's last, from the next cycle on.
    """

    def __init__(self, beats: int, most: int) -> None:
        self.beats = beats
        self.wanted = Signal(range(most + 1))
        self.fits = Signal()
        self.take = Signal()
        self.beat = Signal()
        self.last = Signal()
        self.used = Signal(range(beats + 1))
        self.gone = Signal(range(beats + 1))  # beats of the burst at the head that have left

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        used, gone = self.used, self.gone
        taken = Signal(range(self.beats + 1))
        returned = Signal(range(self.beats + 1))
        m.d.comb += self.fits.eq(used + self.wanted <= self.beats)
        with m.If(self.take):
            m.d.comb += taken.eq(self.wanted)
        with m.If(self.beat):
            with m.If(self.last):
                m.d.comb += returned.eq(gone + 1)
                m.d.sync += gone.eq(0)
            with m.Else():
                m.d.sync += gone.eq(gone + 1)
        m.d.sync += used.eq(used + taken - returned)
        return m


class AddressSide(Elaboratable):
    """Requests the bursts of one transfer after the other.

    `start` with `transfer` begins one, when `idle`. `request` with `address` and `beats` asks for a burst while the
    FIFO has room for it; `grant` answers in the same cycle. `beat` and `last` return credits.
    """

    def __init__(self, geometry: Geometry, memories: Sequence[MemoryType], fifo_beats: int) -> None:
        self.geometry = geometry
        self.start = Signal()
        self.transfer = structured(transfer_layout(geometry, memories))
        self.idle = Signal()
        self.request = Signal()
        self.address = Signal(geometry.address_bits)
        self.cutter = BurstCutter(geometry, geometry.data_burst, len(self.transfer.chain_bytes))
        self.credits = Credits(fifo_beats, geometry.data_burst)
        self.beats = self.cutter.beats
        self.grant = Signal()
        self.beat = self.credits.beat
        self.last = self.credits.last

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.submodules.cutter = cutter = self.cutter
        m.submodules.credits = credits = self.credits
        transfer = self.transfer
        chains = Signal(16)
        rest = Signal.like(cutter.rest)
        chain_bytes = Signal.like(cutter.rest)
        stride = Signal(len(transfer.stride_bytes))
        row = Signal(self.geometry.address_bits)
        following = Signal(self.geometry.address_bits)
        m.d.comb += [
            self.idle.eq(chains == 0),
            cutter.address.eq(self.address),
            cutter.rest.eq(rest),
            credits.wanted.eq(cutter.beats),
            credits.take.eq(self.grant),
            self.request.eq(~self.idle & credits.fits),
            following.eq(row + stride),
        ]
        with m.If(self.start):
            m.d.sync += [
                chains.eq(transfer.chains),
                rest.eq(transfer.chain_bytes),
                chain_bytes.eq(transfer.chain_bytes),
                stride.eq(transfer.stride_bytes),
                row.eq(transfer.address),
                self.address.eq(transfer.address),
            ]
        with m.Elif(self.grant):
            with m.If(cutter.last):
                m.d.sync += [
                    chains.eq(chains - 1),
                    rest.eq(chain_bytes),
                    row.eq(following),
                    self.address.eq(following),
                ]
            with m.Else():
                m.d.sync += [self.address.eq(self.address + cutter.size), rest.eq(rest - cutter.size)]
        return m
