"""Credits: reserved FIFO entries, one per beat, and a FIFO that therefore never overflows.

Burst ends are unconstrained, so the proofs hold for every order of beats.
"""

import pytest
from amaranth import Mux, Signal
from claims import proved

from lathe.rtl import read_requests
from lathe.rtl.fifo import Fifo

# Beats of the FIFO, and of the longest burst: the shipped machines, a FIFO of one burst, and unusual sizes.
SIZES = [(32, 16), (16, 16), (1, 1), (5, 3)]


def reserved(claim, rtl, beats, most):
    """Credits that are taken only if they fit, and the number of reserved beats that have not left yet."""
    credits = claim.about(rtl.Credits(beats, most))
    claim.assume(~credits.take | credits.fits)
    claim.assume((credits.wanted > 0) & (credits.wanted <= most))
    left = Signal(8)
    with claim.m.If(credits.take):
        claim.m.d.sync += left.eq(left + credits.wanted - credits.beat)
    with claim.m.Else():
        claim.m.d.sync += left.eq(left - credits.beat)
    claim.always(
        "credits in use are those of beats to come and of a burst that is leaving",
        credits.used == left + credits.gone,
    )
    claim.always("no more credits than beats of the FIFO", credits.used <= beats)
    return credits, left


@pytest.mark.parametrize(("beats", "most"), SIZES)
@proved(
    read_requests,
    ("returned.eq(gone + 1)", "returned.eq(gone)"),
    ("used + taken - returned", "used + taken - self.beat"),
    induction=1,
)
def test_credits_are_returned_with_the_last_beat_of_their_burst_and_none_is_lost(claim, rtl, beats, most):
    credits, left = reserved(claim, rtl, beats, most)
    claim.assume(~credits.beat | (left != 0))
    ends = claim.before(credits.beat & credits.last)
    claim.always("a burst's last beat ends it", ~(claim.begun & ends) | (credits.gone == 0))
    claim.always("without a burst all credits are free", (left + credits.gone != 0) | (credits.used == 0))


@pytest.mark.parametrize(("beats", "most"), SIZES)
@proved(read_requests, ("used + self.wanted <= self.beats", "used + self.wanted < self.beats"), induction=1)
def test_a_burst_fits_exactly_when_its_beats_are_free(claim, rtl, beats, most):
    credits, left = reserved(claim, rtl, beats, most)
    claim.assume(~credits.beat | (left != 0))
    claim.always("fits: there is space for all beats", credits.fits == (left + credits.gone + credits.wanted <= beats))


@pytest.mark.sample(1)
@pytest.mark.parametrize(("beats", "most"), SIZES)
@proved(
    read_requests,
    ("used + self.wanted <= self.beats", "used <= self.beats"),
    ("returned.eq(gone + 1)", "returned.eq(gone + 2)"),
    induction=1,
    depth=40,
)
def test_a_fifo_with_credits_is_never_written_when_full(claim, rtl, beats, most):
    credits, left = reserved(claim, rtl, beats, most)
    fifo = Fifo(1, beats)
    claim.m.submodules.fifo = fifo
    stored = Signal(8)  # words in the memory; see `test_fifos.py` for these invariants
    if beats > 1:
        wrapped = Mux(fifo.tail > fifo.head, fifo.tail - fifo.head, fifo.tail + beats - fifo.head)
        claim.m.d.comb += stored.eq(Mux(fifo.behind, wrapped, 0))
        claim.always("head and tail are addresses", (fifo.head < beats) & (fifo.tail < beats))
        claim.always("words wait from the head on", fifo.behind | (fifo.tail == fifo.head))
    claim.always("all words are at the head or in the memory", fifo.level == fifo.r_valid + stored)
    claim.always("the memory has words only if the head is valid", fifo.r_valid | (stored == 0))
    arrives, leaves = claim.input(1, "arrives"), claim.input(1, "leaves")
    coming = Signal(8)
    claim.assume(~arrives | (coming != 0))
    claim.assume(~leaves | fifo.r_valid)
    claim.m.d.comb += [coming.eq(left - fifo.level), fifo.w_en.eq(arrives), fifo.r_en.eq(leaves)]
    claim.assume(credits.beat == leaves)
    claim.always("reserved beats are in the FIFO or to come", left >= fifo.level)
    claim.always("the FIFO is never written when full", ~(fifo.w_en & fifo.full))
    claim.always("and never holds more than its depth", fifo.level <= beats)
