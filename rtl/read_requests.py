"""Burst requests, one per cycle, and credits for the FIFO that receives their beats."""

from collections.abc import Sequence

from amaranth import Elaboratable, Module, Signal

from lathe.isa.table import MemoryType
from lathe.rtl.burst import BurstCutter
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.dma_descriptor import transfer_layout
from lathe.rtl.struct_signal import structured


class Credits(Elaboratable):
    """Credits of a FIFO: space for a burst's beats is reserved before its request, until its last beat leaves.

    `fits`: there is space for `wanted` beats. `take` reserves it; `beat`: a beat leaves the FIFO, with `last` when it
    is its burst's last, which frees the space of the burst from the next cycle on.
    """

    def __init__(self, beats: int, most: int) -> None:
        self.beats = beats
        self.wanted = Signal(range(most + 1))
        self.fits = Signal()
        self.take = Signal()
        self.beat = Signal()
        self.last = Signal()
        self.used = Signal(range(beats + 1))
        self.gone = Signal(range(beats + 1))  # beats of the burst at the head that have left the FIFO

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


class BurstRequests(Elaboratable):
    """Requests the bursts of chains, each after its space in a FIFO has been reserved.

    `cutter.start` takes chains; `idle`: all their bursts have been requested. `valid` with `address` and `beats` is a
    request, and `take` accepts it. `credits.beat` and `credits.last` return credits.
    """

    def __init__(self, geometry: Geometry, limit: int, fifo_beats: int, rest_bits: int, stride_bits: int = 1) -> None:
        self.cutter = BurstCutter(geometry, limit, rest_bits, stride_bits)
        self.credits = Credits(fifo_beats, limit)
        self.valid = Signal()
        self.address = Signal.like(self.cutter.address, reset_less=True)
        self.end = Signal.like(self.cutter.end, reset_less=True)
        self.beats = Signal.like(self.cutter.beats, reset_less=True)
        self.last = Signal()
        self.take = Signal()
        self.idle = Signal()

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.submodules.cutter = cutter = self.cutter
        m.submodules.credits = credits = self.credits
        moves = Signal()
        m.d.comb += [
            self.idle.eq(cutter.idle & ~self.valid),
            credits.wanted.eq(cutter.beats),
            moves.eq(cutter.valid & credits.fits & (~self.valid | self.take)),
            credits.take.eq(moves),
            cutter.take.eq(moves),
        ]
        with m.If(moves):
            m.d.sync += [
                self.valid.eq(1),
                self.address.eq(cutter.address),
                self.end.eq(cutter.end),
                self.beats.eq(cutter.beats),
                self.last.eq(cutter.last),
            ]
        with m.Elif(self.take):
            m.d.sync += self.valid.eq(0)
        return m


class AddressSide(Elaboratable):
    """The address side of a read master: requests the bursts of one transfer after the other.

    `start` with `transfer` begins one, when `idle`. `request` with `address` and `beats` requests a burst, for which
    the FIFO has space; `grant` answers in the same cycle. `beat` and `last` return credits.
    """

    def __init__(self, geometry: Geometry, memories: Sequence[MemoryType], fifo_beats: int) -> None:
        self.transfer = structured(transfer_layout(geometry, memories))
        sizes = (len(self.transfer.chain_bytes), len(self.transfer.stride_bytes))
        self.requests = requests = BurstRequests(geometry, geometry.data_burst, fifo_beats, *sizes)
        self.start = requests.cutter.start
        self.idle = requests.idle
        self.request = requests.valid
        self.address = requests.address
        self.beats = requests.beats
        self.grant = requests.take
        self.beat = requests.credits.beat
        self.last = requests.credits.last

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.submodules.requests = self.requests
        self.requests.cutter.take_chains(m, self.transfer)
        return m
