"""RESCALE: sums of partial products, rounding and clamping; late accumulator writes and their hazards."""

from itertools import pairwise

import pytest
from amaranth import Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.lib import data
from claims import proved

from lathe.isa.table import Opcode
from lathe.rtl import rounding, scaling, write_hazards


def ago(claim, value, cycles):
    """The value `cycles` cycles ago."""
    for _ in range(cycles):
        value = claim.before(value)
    return value


@pytest.mark.slow
@proved(
    scaling,
    ("Cat(products.low, products.high).as_signed() + before", "Cat(products.low, products.high) + before"),
    ("Signal(signed(2 * HALF + 1))", "Signal(signed(2 * HALF))"),
    ("before.eq(total)", "before.eq(total[:58].as_signed())"),
    ("value.eq(self.value + self.bias)", "value.eq(self.value)"),
    induction=1,
)
def test_partial_products_of_halves_are_summed_to_the_product(claim, rtl):
    unit = claim.about(rtl.Scaling())
    total, products = claim.inside(unit)["total"], claim.part(unit, "products")
    # Multipliers are unconstrained: the solver takes minutes for one.
    claim.leave_open(products)
    claim.assume(unit.valid.all())

    def follows(what, signal, value):
        claim.always(what, ~claim.begun | (signal == claim.before(value)))

    follows("the sum with the bias", products.value, (unit.value + unit.bias)[:32].as_signed())
    follows("the mantissa", products.mantissa, unit.mantissa)
    crosses = (products.crosses[0] << 16) + (products.crosses[1] << 16)
    product = products.low + crosses + (products.high << 32)
    follows("their sum", total, (product + Mux(unit.adds, total, 0))[: len(total)].as_signed())


@pytest.mark.slow
@proved(
    rounding,
    ("up.eq(shifted[0] & (under | shifted[1]))", "up.eq(shifted[0])"),
    ("up.eq(shifted[0] & (under | shifted[1]))", "up.eq(shifted[0] & under)"),
    ("bits[:start].any()", "bits[: start + 1].any()"),
    ("differs[start + _WINDOW :].any()", "differs[start + _WINDOW + 1 :].any()"),
    ("differs[start + _QUOTIENT :].any()", "differs[start + _QUOTIENT + 1 :].any()"),
    ("_QUOTIENT = 10", "_QUOTIENT = 9"),
    ("moved < self.low", "moved <= self.low + 1"),
    ("Mux(wide, ~quotient[-1], moved > self.high)", "moved > self.high"),
    induction=4,
)
def test_a_total_is_rounded_to_nearest_even_and_clamped(claim, rtl):
    unit = claim.about(rtl.Rounding())
    claim.assume(unit.valid.all() & (unit.low <= unit.high) & ((unit.high == 127) | (unit.high == 255)))
    # The definition, without truncation.
    quotient = unit.total >> unit.shift
    rest = Signal(64)
    claim.m.d.comb += rest.eq(unit.total - (quotient << unit.shift))
    half = Signal(64)
    claim.m.d.comb += half.eq(Mux(unit.shift == 0, 0, 1 << (unit.shift - 1)[:6]))
    up = (rest > half) | ((rest == half) & quotient[0] & (unit.shift != 0))
    nearest = ago(claim, (quotient + up)[:60].as_signed(), 2) + unit.zero_point
    expected = claim.before(Mux(nearest < unit.low, unit.low, Mux(nearest > unit.high, unit.high, nearest)))
    claim.always("three cycles later", ~ago(claim, claim.begun, 3) | (unit.result == expected))


class Steps(Elaboratable):
    """A pipeline of arbitrary issue cycles, with their accumulator indices."""

    def __init__(self, rtl, stages, steps):
        self.rtl, self.steps = rtl, steps
        layout = data.StructLayout({"valid": 1, "writes": 1, "rescale": 1})
        self.stages = [Signal(layout, name=f"stage{number}") for number in range(stages)]
        self.following = Signal(2)
        self.targets = [
            Signal(2, name=f"place{number}", reset_less=True) if number >= rtl.CHECK else Const(0)
            for number in range(stages)
        ]
        self.hazard, self.lands = Signal(), Signal()
        self.writes, self.index = Signal(3), [Signal(2, name=f"index{number}") for number in range(3)]

    def elaborate(self, _platform):
        m = Module()
        check = self.rtl.CHECK
        for before, after in pairwise(self.stages):
            m.d.sync += after.eq(before)
        m.d.sync += self.targets[check].eq(self.following)
        for before, after in pairwise(self.targets[check:]):
            m.d.sync += after.eq(before)
        late = self.rtl.LateWrites(m, Opcode.RESCALE, self.steps, self.stages, self.targets, Const(1))
        hazard = late.hazard(m, self.stages, self.targets, self.following)
        m.d.comb += [self.hazard.eq(hazard), self.lands.eq(late.lands)]
        for number, (writes, index) in enumerate(late.coming):
            m.d.comb += [self.writes[number].eq(writes), self.index[number].eq(index)]
        return m


@pytest.mark.slow
@pytest.mark.parametrize(("stages", "steps"), [(7, 2), (7, 5), (9, 2), (9, 6)])
@proved(
    write_hazards,
    ("[: self.steps]", "[: self.steps - 1]"),
    ("[: self.steps]", "[: self.steps + 1]"),
    ("return step.valid & step[self.name] & met", "return step.valid & met"),
    ("range(steps):", "range(steps - 1):"),
    ("Mux(late, late_index, here)", "here"),
    ("(writes & ~reading[self.name])", "writes"),
    ("delayed(m, 1, self.holds)", "delayed(m, 2, self.holds)"),
    induction=16,
)
def test_late_writes_are_delayed_and_a_step_that_reads_too_soon_is_detected(claim, rtl, stages, steps):
    unit = claim.about(Steps(rtl, stages, steps))
    step, place = unit.stages[rtl.CHECK], unit.targets[rtl.CHECK]
    own = step.valid & step.writes & ~step.rescale
    late = step.valid & step.writes & step.rescale
    # No other write conflicts with a late one: the sequencer appends this many idle issue cycles to an instruction.
    claim.assume(~(own & ago(claim, late, steps)))
    begun = ago(claim, claim.begun, 15)
    reads = step.valid & step.rescale
    recent = [ago(claim, late, back) & (ago(claim, place, back) == place) for back in range(1, steps + 1)]
    claim.always("a step reads what is not written yet", ~begun | (unit.hazard == (reads & Cat(*recent).any())))
    for number in range(3):  # held, combined, written
        back = stages - 3 + number - rtl.CHECK
        now, then = ago(claim, own, back), ago(claim, late, back + steps)
        claim.always("writes, late and not", ~begun | (unit.writes[number] == (now | then)))
        where = Mux(then, ago(claim, place, back + steps), ago(claim, place, back))
        claim.always("where to", ~begun | ~(now | then) | (unit.index[number] == where))
        if number == 1:
            claim.always("which of both", ~begun | (unit.lands == then))
