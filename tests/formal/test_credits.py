"""Credits: beats that are spoken for, and the FIFO behind them, which therefore never overflows.

Nothing is assumed of where bursts end, so that the proofs hold of every order of beats.
"""

import pytest
from amaranth import Mux, Signal
from claims import proved

from lathe.rtl import read_requests
from lathe.rtl.fifo import Fifo

# Beats of the FIFO, and of the longest burst: the shipped machines', a FIFO no longer than a burst, and odd ones.
SIZES = [(32, 16), (16, 16), (1, 1), (5, 3)]


def spoken_for(claim, rtl, beats, most):
    """Credits that are taken only where they fit, and beats that were taken and have not left yet."""
    credits = claim.about(rtl.Credits(beats, most))
    claim.assume(~credits.take | credits.fits)
    claim.assume((credits.wanted > 0) & (credits.wanted <= most))
    left = Signal(8)
    with claim.m.If(credits.take):
        claim.m.d.sync += left.eq(left + credits.wanted - credits.beat)
    with claim.m.Else():
        claim.m.d.sync += left.eq(left - credits.beat)
    claim.always(
        "credits in use are of beats that will come and of those of a burst that is leaving",
        credits.used == left + credits.gone,
    )
    claim.always("no more credits than places", credits.used <= beats)
    return credits, left


@pytest.mark.parametrize(("beats", "most"), SIZES)
@proved(
    read_requests,
    ("returned.eq(gone + 1)", "returned.eq(gone)"),
    ("used + taken - returned", "used + taken - self.beat"),
    induction=1,
)
def test_credits_come_back_with_the_last_beat_of_their_burst_and_none_is_lost(claim, rtl, beats, most):
    credits, left = spoken_for(claim, rtl, beats, most)
    claim.assume(~credits.beat | (left != 0))
    ends = claim.before(credits.beat & credits.last)
    claim.always("a burst's last beat leaves nothing of it", ~(claim.begun & ends) | (credits.gone == 0))
    claim.always("without a burst under way all credits are free", (left + credits.gone != 0) | (credits.used == 0))


@pytest.mark.parametrize(("beats", "most"), SIZES)
@proved(read_requests, ("used + self.wanted <= self.beats", "used + self.wanted < self.beats"), induction=1)
def test_a_burst_fits_exactly_when_the_beats_it_wants_are_free(claim, rtl, beats, most):
    credits, left = spoken_for(claim, rtl, beats, most)
    claim.assume(~credits.beat | (left != 0))
    claim.always("fits tells of room for all beats", credits.fits == (left + credits.gone + credits.wanted <= beats))


@pytest.mark.parametrize(("beats", "most"), SIZES)
@proved(
    read_requests,
    ("used + self.wanted <= self.beats", "used <= self.beats"),
    ("returned.eq(gone + 1)", "returned.eq(gone + 2)"),
    induction=1,
    depth=40,
)
def test_a_fifo_behind_credits_is_never_written_when_full(claim, rtl, beats, most):
    credits, left = spoken_for(claim, rtl, beats, most)
    fifo = Fifo(1, beats)
    claim.m.submodules.fifo = fifo
    stored = Signal(8)  # words behind the head; `test_fifos.py` proves that this is how they lie
    if beats > 1:
        wrapped = Mux(fifo.tail > fifo.head, fifo.tail - fifo.head, fifo.tail + beats - fifo.head)
        claim.m.d.comb += stored.eq(Mux(fifo.behind, wrapped, 0))
        claim.always("head and tail are places", (fifo.head < beats) & (fifo.tail < beats))
        claim.always("words wait from the head on", fifo.behind | (fifo.tail == fifo.head))
    claim.always("all words are at the head or in the memory", fifo.level == fifo.r_valid + stored)
    claim.always("the memory has words only behind a head", fifo.r_valid | (stored == 0))
    arrives, leaves = claim.input(1, "arrives"), claim.input(1, "leaves")
    coming = Signal(8)
    claim.assume(~arrives | (coming != 0))
    claim.assume(~leaves | fifo.r_valid)
    claim.m.d.comb += [coming.eq(left - fifo.level), fifo.w_en.eq(arrives), fifo.r_en.eq(leaves)]
    claim.assume(credits.beat == leaves)
    claim.always("beats that were spoken for lie in the FIFO or are to come", left >= fifo.level)
    claim.always("the FIFO is never written when full", ~(fifo.w_en & fifo.full))
    claim.always("and never holds more than it has places", fifo.level <= beats)
