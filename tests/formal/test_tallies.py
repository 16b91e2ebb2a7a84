"""Tallies: how many are under way, for ever."""

import pytest
from amaranth import Elaboratable, Module, Signal
from claims import proved

from lathe.rtl import up_down_counter


class Tallied(Elaboratable):
    """A tally on its own."""

    def __init__(self, rtl, most):
        self.enter, self.leave = Signal(), Signal()
        self.tally = rtl.Tally(most, "found")

    def elaborate(self, _platform):
        m = Module()
        self.tally.counts(m, self.enter, self.leave)
        return m


@pytest.mark.parametrize("most", [1, 2, 3, 8])
@proved(
    up_down_counter,
    ("self.count + enter - leave", "self.count + (enter & ~leave) - leave"),
    ("self.most - 1", "self.most"),
    ("Mux(leave, self.full, before)", "before"),
    ("self.full & ~leave", "self.full"),
    induction=1,
)
def test_a_tally_counts_what_has_entered_and_not_left_and_tells_when_that_is_all(claim, rtl, most):
    unit = claim.about(Tallied(rtl, most))
    inside = Signal(8)
    claim.m.d.sync += inside.eq(inside + unit.enter - unit.leave)
    claim.assume(~unit.leave | (inside != 0))
    claim.assume(~unit.enter | unit.leave | (inside != most))
    claim.always("the count is that of what is under way", unit.tally.count == inside)
    claim.always("full tells that it is all", unit.tally.full == (inside == most))
    claim.always("and never more", inside <= most)
