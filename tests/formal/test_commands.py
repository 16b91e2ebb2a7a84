"""Command ports: a unit starts only instructions in its queue, and pops only available tokens.

The proofs of token counters rely on the latter.
"""

import pytest
from amaranth import Elaboratable, Module, Signal
from claims import proved

from lathe.isa.table import QUEUE_OF, TokenQueue, Unit
from lathe.rtl import stall
from lathe.rtl.stall import Cause

every_unit = pytest.mark.parametrize("unit", list(Unit), ids=lambda unit: unit.name.lower())


class Started(Elaboratable):
    """A command port whose unit takes the next command whenever nothing stalls it."""

    def __init__(self, rtl, unit):
        self.command = rtl.CommandPort(unit)
        self.pop_prev, self.pop_next, self.busy = Signal(), Signal(), Signal()
        self.end, self.end_pushes = Signal(), Signal(2)
        self.cause, self.held = Signal(stall.CAUSE_BITS), Signal()

    def elaborate(self, _platform):
        m = Module()
        cause, held = self.command.stall_cause(m, self.pop_prev, self.pop_next, [(Cause.MEMORY, self.busy)])
        self.command.push(m, self.end, self.end_pushes)
        m.d.comb += [self.cause.eq(cause), self.held.eq(held), self.command.take.eq(~held)]
        return m


def popped(found, unit):
    """For each token queue, whether the next command pops a token of it."""
    pops = {"pop_prev": found.pop_prev, "pop_next": found.pop_next}
    flags = dict.fromkeys(TokenQueue, 0)
    return flags | {QUEUE_OF[unit, name]: flag for name, flag in pops.items() if (unit, name) in QUEUE_OF}


@pytest.mark.sample(1)
@every_unit
@proved(
    stall,
    ("flag & ~self.tokens[queue]", "~self.tokens[queue]"),
    ("(Cause.EMPTY, ~self.valid)", "(Cause.EMPTY, self.valid & ~self.valid)"),
    ("reversed(conditions + others)", "conditions + others"),
    ("condition for _, condition in conditions + others", "condition for _, condition in conditions"),
    depth=1,
)
def test_a_command_starts_exactly_when_it_is_valid_and_has_its_tokens_and_the_unit_is_ready(claim, rtl, unit):
    found = claim.about(Started(rtl, unit))
    command = found.command
    missing = [flag & ~command.tokens[queue] for queue, flag in popped(found, unit).items()]
    lacks = missing[0] | missing[1] | missing[2] | missing[3]
    claim.always("there is a cause exactly while it is stalled", found.held == (found.cause != Cause.NONE))
    claim.always("it starts", command.take == (command.valid & ~lacks & ~found.busy))
    claim.always("an empty queue is the first cause", (found.cause == Cause.EMPTY) == ~command.valid)
    memory = command.valid & ~lacks & found.busy
    claim.always("the unit's own cause is the last", (found.cause == Cause.MEMORY) == memory)


@every_unit
@proved(
    stall,
    ("self.pops[queue].eq(self.take & flag)", "self.pops[queue].eq(flag)"),
    ("flag & ~self.tokens[queue]", "flag & ~self.tokens[0]"),
    depth=1,
)
def test_a_unit_pops_the_tokens_that_its_command_names_and_only_available_ones(claim, rtl, unit):
    found = claim.about(Started(rtl, unit))
    command = found.command
    for queue, flag in popped(found, unit).items():
        claim.always("only available tokens are popped", ~command.pops[queue] | command.tokens[queue])
        claim.always("with its command", command.pops[queue] == (command.take & flag))


@every_unit
@proved(
    stall,
    ('enumerate(("push_prev", "push_next"))', 'enumerate(("push_next", "push_prev"))'),
    ("end & pushes[bit]", "pushes[bit]"),
    depth=1,
)
def test_tokens_are_pushed_at_an_instructions_end_to_the_neighbour_that_it_names(claim, rtl, unit):
    found = claim.about(Started(rtl, unit))
    for queue in TokenQueue:
        names = [bit for bit, name in enumerate(("push_prev", "push_next")) if QUEUE_OF.get((unit, name)) == queue]
        pushed = found.end & found.end_pushes[names[0]] if names else 0
        claim.always(f"tokens of {queue.arrow}", found.command.pushes[queue] == pushed)
