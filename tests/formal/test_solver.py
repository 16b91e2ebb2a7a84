"""The prover itself: false claims are refuted by the shortest trace, and true claims are proved."""

import re
from types import SimpleNamespace

import pytest
from amaranth import Elaboratable, Module, Signal
from claims import Claim, proved
from mutants import mutant
from solver import bounded, inductive, smt

from lathe.rtl import tokens


class Saturating(Elaboratable):
    """Counts events, to 5."""

    def __init__(self):
        self.event = Signal()
        self.count = Signal(3)

    def elaborate(self, _platform):
        m = Module()
        with m.If(self.event & (self.count != 5)):
            m.d.sync += self.count.eq(self.count + 1)
        return m


def asked(state):
    """A claim, its SMT-LIB text, and its constant inputs."""
    claim = Claim()
    state(claim, claim.about(Saturating()))
    return claim, smt(claim, claim.ports.values()), claim.constants


def test_a_false_claim_is_refuted_by_the_shortest_trace():
    claim, text, constants = asked(lambda claim, unit: claim.always("it stays below 3", unit.count < 3))
    assert bounded(text, constants, 3) is None
    trace = bounded(text, constants, 9)
    assert [state["count"] for state in trace] == [0, 1, 2, 3]
    assert [state["event"] for state in trace][:3] == [1, 1, 1]
    assert claim.described(trace).startswith("broken: it stays below 3\n  cycle 0: event=0x1\n  cycle 1: ")


def test_an_inductive_claim_is_proved():
    _, text, constants = asked(lambda claim, unit: claim.always("it goes to 5", unit.count <= 5))
    assert bounded(text, constants, 20) is None
    assert inductive(text, constants, 1) is None


def test_a_true_claim_that_is_not_inductive_is_not_proved():
    _, text, constants = asked(lambda claim, unit: claim.always("it is not 7", unit.count != 7))
    assert bounded(text, constants, 20) is None
    assert [state["count"] for state in inductive(text, constants, 1)] == [6, 7]


def test_assumptions_hold_in_every_state():
    def quiet(claim, unit):
        claim.assume(~unit.event)
        claim.always("nothing is counted", unit.count == 0)

    _, text, constants = asked(quiet)
    assert bounded(text, constants, 5) is None
    assert inductive(text, constants, 1) is None


@pytest.mark.parametrize("constant", [True, False])
def test_a_constant_is_chosen_once_and_an_input_in_every_cycle(constant):
    def steady(claim, _unit):
        value = claim.constant(4, "value") if constant else claim.input(4, "value")
        claim.always("it is what it was", ~claim.begun | (value == claim.before(value)))

    _, text, constants = asked(steady)
    found = bounded(text, constants, 3)
    assert found is None if constant else len(found) == 2


def test_a_reset_may_come_in_any_cycle():
    def growing(claim, unit):
        before = Signal(3)
        claim.m.d.comb += before.eq(claim.before(unit.count))
        claim.always("it never decreases", unit.count >= before)

    _, text, constants = asked(growing)
    assert bounded(text, constants, 9) is None  # the claim's own registers are reset, too

    def counting(claim, unit):
        since = Signal(3, reset_less=True)
        claim.m.d.sync += since.eq(unit.count)
        claim.always("it never decreases", unit.count >= since)

    _, text, constants = asked(counting)
    trace = bounded(text, constants, 9)
    assert [(state["count"], state["rst"]) for state in trace] == [(0, 0), (1, 1), (0, 0)]


def test_a_mutant_is_the_module_with_one_expression_replaced():
    changed = mutant(tokens, "self.value != 0", "self.value == 0")
    assert changed.TokenCounter is not tokens.TokenCounter
    assert changed.TOKEN_BITS == tokens.TOKEN_BITS
    with pytest.raises(AssertionError, match=re.escape("lathe.rtl.tokens has 'self.' ")):
        mutant(tokens, "self.", "")


@pytest.mark.parametrize(
    ("limit", "mutation", "problem"),
    [
        (5, ("!= 5", "!= 3"), "a mutant is not detected: '!= 3' instead of '!= 5'"),
        (4, ("!= 5", "!= 7"), "does not hold: broken: it goes to the limit\n  cycle 0: event=0x1"),
    ],
)
def test_a_proof_fails_when_its_claim_fails_and_when_it_misses_a_mutant(tmp_path, limit, mutation, problem):
    source = tmp_path / "saturating.py"
    source.write_text(
        "from amaranth import Elaboratable, Module, Signal\n"
        "class Saturating(Elaboratable):\n"
        "    def __init__(self):\n"
        "        self.event, self.count = Signal(), Signal(3)\n"
        "    def elaborate(self, _platform):\n"
        "        m = Module()\n"
        "        with m.If(self.event & (self.count != 5)):\n"
        "            m.d.sync += self.count.eq(self.count + 1)\n"
        "        return m\n"
    )
    module = SimpleNamespace(__name__="saturating", __file__=str(source), Saturating=Saturating)

    @proved(module, mutation, depth=8)
    def proof(claim, rtl):
        claim.always("it goes to the limit", claim.about(rtl.Saturating()).count <= limit)

    with pytest.raises(AssertionError, match=re.escape(problem)):
        proof()
