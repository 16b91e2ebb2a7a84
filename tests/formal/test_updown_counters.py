"""Up/down counters: the number of items in flight, for all time."""

import pytest
from amaranth import Elaboratable, Module, Signal
from claims import proved

from lathe.rtl import up_down_counter


class Counted(Elaboratable):
    """An up/down counter with ports."""

    def __init__(self, rtl, most):
        self.enter, self.leave = Signal(), Signal()
        self.counter = rtl.UpDownCounter(most, "found")

    def elaborate(self, _platform):
        m = Module()
        self.counter.drive(m, self.enter, self.leave)
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
def test_a_counter_has_the_number_of_items_and_whether_it_is_full(claim, rtl, most):
    unit = claim.about(Counted(rtl, most))
    inside = Signal(8)
    claim.m.d.sync += inside.eq(inside + unit.enter - unit.leave)
    claim.assume(~unit.leave | (inside != 0))
    claim.assume(~unit.enter | unit.leave | (inside != most))
    claim.always("the count is the number of items", unit.counter.count == inside)
    claim.always("full means that the maximum is reached", unit.counter.full == (inside == most))
    claim.always("and never more", inside <= most)
