"""Burst requests: each burst once, in order, after its space in the FIFO has been reserved."""

from types import SimpleNamespace

import pytest
from amaranth import Cat, Mux, Signal
from claims import proved
from cutting import Cut

from lathe.rtl import read_requests

# Bytes of a bus word, beats of the longest burst and of the FIFO: shipped machines, and unusual sizes.
SIZES = [(8, 16, 32), (1, 1, 3), (8, 3, 5)]
sizes = pytest.mark.parametrize(("bus", "limit", "beats"), SIZES)


class Requested:
    """Burst requests that start only when none is pending or the last one is being taken, as in store.

    Beats leave the FIFO only after their burst was taken.
    """

    def __init__(self, claim, rtl, bus, limit, beats):
        self.claim = claim
        geometry = SimpleNamespace(bus_bytes=bus, address_bits=15)
        self.unit = unit = claim.about(rtl.BurstRequests(geometry, limit, beats, 14, 14))
        self.cutter, self.credits = unit.cutter, unit.credits
        for part in (self.cutter, self.credits):
            for signal in (getattr(part, name, None) for name in ("start", "beat", "last", *INPUTS)):
                if signal is not None:
                    claim.ports[id(signal)] = signal
        claim.assume(~self.cutter.start | ~unit.valid | unit.take)
        claim.assume(~unit.take | unit.valid)
        self.moves = self.cutter.take
        # Beats of taken bursts that have not left.
        self.left = Signal(9)
        taken = Mux(unit.take, unit.beats, 0)
        claim.m.d.sync += self.left.eq(self.left + taken - self.credits.beat)
        claim.assume(~self.credits.beat | (self.left != 0))
        self.waits = Signal()  # a burst has reserved space, and is not taken yet
        with claim.m.If(self.moves):
            claim.m.d.sync += self.waits.eq(1)
        with claim.m.Elif(unit.take):
            claim.m.d.sync += self.waits.eq(0)

    def check_credits(self):
        """Assert for which beats space is reserved."""
        claim, unit, credits = self.claim, self.unit, self.credits
        claim.always("a burst is requested while it waits", unit.valid == self.waits)
        reserved = self.left + Mux(self.waits, unit.beats, 0)
        claim.always("space is reserved for requests and beats to come", credits.used == (reserved + credits.gone)[:10])
        claim.always("never more than the FIFO has", credits.used <= credits.beats)


INPUTS = ("chains", "from_address", "chain_bytes", "stride_bytes")


@pytest.mark.sample(1)
@pytest.mark.slow
@sizes
@proved(
    read_requests,
    ("cutter.valid & credits.fits & (", "cutter.valid & ("),
    ("credits.take.eq(moves)", "credits.take.eq(self.take)"),
    ("(~self.valid | self.take)", "1"),
    ("with m.Elif(self.take):", "with m.Elif(self.take & self.last):"),
    ("with m.Elif(self.take):", "with m.Elif(self.take & ~cutter.start):"),
    induction=1,
    depth=12,
)
def test_no_burst_is_requested_without_space_in_the_fifo(claim, rtl, bus, limit, beats):
    found = Requested(claim, rtl, bus, limit, beats)
    cut = Cut(claim, found.cutter, limit)
    cut.check_registers()
    cut.check_burst()
    found.check_credits()


@pytest.mark.slow
@sizes
@proved(
    read_requests,
    ("cutter.take.eq(moves)", "cutter.take.eq(moves & ~cutter.last)"),
    ("self.end.eq(cutter.end)", "self.end.eq(cutter.address)"),
    ("self.idle.eq(cutter.idle & ~self.valid)", "self.idle.eq(cutter.idle)"),
    ("(~self.valid | self.take)", "~self.valid"),
    induction=1,
    depth=12,
)
def test_each_burst_of_the_chains_is_requested_once_and_in_order(claim, rtl, bus, limit, beats):
    found = Requested(claim, rtl, bus, limit, beats)
    unit = found.unit
    cut = Cut(claim, found.cutter, limit)
    cut.check_registers()
    cut.check_burst()
    found.check_credits()
    # The burst that the chains require next, recorded when its space is reserved.
    end = (cut.address + cut.size)[: len(unit.end)]
    expected = Cat(cut.address, end, (cut.chains == 1) & cut.ends)
    asked = Signal(len(expected))
    with claim.m.If(found.moves):
        claim.m.d.sync += asked.eq(expected)
    claim.always("it is the next one", ~unit.valid | (Cat(unit.address, unit.end, unit.last) == asked))
    claim.always("idle when all were taken", unit.idle == ((cut.chains == 0) & ~found.waits))
    ready = found.cutter.valid & found.credits.fits & (~found.waits | unit.take)
    claim.always("space is reserved as soon as it is free", found.moves == ready)
