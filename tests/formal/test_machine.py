"""Connections between the units of the machine: tokens, commands, faults and the end of a launch.

The units are unconstrained, so the proofs hold for any behaviour that satisfies the assumptions made here. They do not
depend on the depth of the command queues.
"""

import pytest
from amaranth import Cat, Mux, Signal
from claims import proved

from lathe.configs import load_config
from lathe.isa.table import QUEUE_OF, TokenQueue, Unit
from lathe.rtl import accelerator
from lathe.rtl.fault import FaultCode

TINY = load_config("tiny").with_(**{"timing.command_queue_depth": 2})
OPEN = ("fetch", "load", "inp", "wgt", "compute", "store", "arbiter")


def machine(claim, rtl):
    """A machine with unconstrained units, except that no full queue is written and no empty one is read."""
    found = rtl.Accelerator(TINY)
    for name in OPEN:
        claim.leave_open(getattr(found, name))
    claim.about(found)
    units = {Unit.LOAD: found.load, Unit.COMPUTE: found.compute, Unit.STORE: found.store}
    for number, unit in units.items():
        claim.assume(~(found.fetch.dispatch & (found.fetch.unit == number) & found.fetch.full[number]))
        claim.assume(~unit.command.take | unit.command.valid)
    claim.always("no launch starts while there is one", ~(found.control.start & found.control.busy))
    return found, units


def standing(found, units):
    """A standstill: all units are idle, none can start or decode a command, and fetch cannot dispatch any."""
    waits = Cat(*(unit.idle & unit.activity.stall for unit in units.values())).all()
    seen = Cat(*(queue.empty | unit.command.valid for queue, unit in zip(found.queues, units.values(), strict=True)))
    return waits & seen.all() & (found.fetch.done | found.fetch.stuck)


def complete(found, units):
    """All instructions are dispatched, every queue is empty, and no unit is active."""
    idle = Cat(*(unit.idle & queue.empty for queue, unit in zip(found.queues, units.values(), strict=True))).all()
    return idle & found.fetch.done


@pytest.mark.slow
@proved(
    accelerator,
    ("(fetch.done | fetch.stuck) & ~complete", "fetch.done & ~complete"),
    (
        "idle = Cat(*(unit.idle for unit in units)).all()",
        "idle = self.load.idle & self.store.idle & self.compute.command.valid",
    ),
    induction=1,
)
def test_a_machine_at_a_standstill_reports_a_deadlock_two_cycles_later(claim, rtl):
    found, units = machine(claim, rtl)
    control = found.control
    stood = claim.begun & claim.before(standing(found, units) & ~complete(found, units) & control.running)
    noticed = stood & control.running & (control.fault == FaultCode.NONE)
    claim.always("it is detected in the next cycle", ~stood | control.standstill)
    claim.always("and not taken for an end", ~stood | ~control.complete)
    before = claim.begun & claim.before(noticed)
    claim.always("the code is reported", ~before | (control.fault_code == FaultCode.DEADLOCK))
    claim.always(
        "and every unit is stopped", ~before | Cat(*(each.stop for each in (found.fetch, *units.values()))).all()
    )


@pytest.mark.slow
@proved(
    accelerator,
    (
        "Cat(*waiting).all()",
        "Cat(*waiting).any()",
    ),
    ("(fetch.done | fetch.stuck) & ~complete", "~complete"),
    ("~complete & idle &", "~complete &"),
    ("activity.stall & queue.settled", "activity.stall"),
    depth=7,
)
def test_no_deadlock_is_reported_while_a_unit_can_continue(claim, rtl):
    found, units = machine(claim, rtl)
    control = found.control
    # Nothing else reports this code.
    claim.assume(control.fault != FaultCode.DEADLOCK)
    reported = control.fault_code == FaultCode.DEADLOCK
    new = claim.begun & reported & (claim.before(control.fault_code) != FaultCode.DEADLOCK)
    claim.always("the machine stood still", ~new | claim.before(claim.before(standing(found, units))))
    claim.always("and was not at its end", ~new | ~claim.before(claim.before(complete(found, units))))


@pytest.mark.slow
@proved(
    accelerator,
    (
        "command.pushes[queue_number] for command in commands",
        "command.pushes[queue_number] for command in commands[:2]",
    ),
    ("command.pops[queue_number] for command in commands", "command.pops[queue_number] for command in commands[1:]"),
    ("counter.value.eq(control.tokens_in[queue_number])", "counter.value.eq(control.tokens_in[0])"),
    induction=1,
)
def test_a_token_is_pushed_by_one_neighbour_and_popped_by_the_other_and_none_is_lost(claim, rtl):
    found, units = machine(claim, rtl)
    for (unit, name), queue in QUEUE_OF.items():
        for other, port in ((other, each.command) for other, each in units.items()):
            if other != unit:  # units access only their own queues (test_commands.py)
                claim.assume(~(port.pushes if name.startswith("push") else port.pops)[queue])
    for queue in TokenQueue:
        (producer,) = (unit for (unit, name), each in QUEUE_OF.items() if each == queue and name.startswith("push"))
        (consumer,) = (unit for (unit, name), each in QUEUE_OF.items() if each == queue and name.startswith("pop"))
        pushed, popped = units[producer].command.pushes[queue], units[consumer].command.pops[queue]
        inside = Signal(17, name=f"inside{queue}")
        claim.assume(~popped | (inside != 0))
        claim.assume(~(pushed & ~popped & (inside == 65535)) | found.control.start)
        following = Mux(found.control.start, found.control.tokens_in[queue], inside + pushed - popped)
        claim.m.d.sync += inside.eq(following)
        claim.always(f"tokens of {queue.arrow}", found.control.tokens[queue] == inside)
        claim.always(f"{queue.arrow} is seen by its consumer", units[consumer].command.tokens[queue] == (inside != 0))


@pytest.mark.slow
@proved(
    accelerator,
    ("(self.fetch.unit == unit)", "(self.fetch.unit <= unit)"),
    ("queue.word.eq(self.fetch.word)", "queue.word.eq(self.fetch.word[1:])"),
    ("self.fetch.full[unit].eq(queue.full)", "self.fetch.full[unit].eq(self.queues[0].full)"),
    depth=8,
)
def test_an_instruction_goes_into_its_units_queue_and_into_no_other(claim, rtl):
    found, units = machine(claim, rtl)
    for number, unit in units.items():
        came, went = found.fetch.dispatch & (found.fetch.unit == number), unit.command.take
        inside = Signal(3, name=f"inside{int(number)}")
        claim.m.d.sync += inside.eq(Mux(found.control.clear, 0, inside + came - went))
        latest = Signal.like(found.fetch.word, name=f"latest{int(number)}")
        with claim.m.If(came):
            claim.m.d.sync += latest.eq(found.fetch.word)
        claim.always("a command only while there is one", ~unit.command.valid | (inside != 0))
        only = unit.command.valid & (inside == 1)
        claim.always("which is the latest one", ~only | (unit.command.word == latest))
        claim.always("the queue is empty without one", found.queues[number].empty == (inside == 0))
        claim.always("full when it holds as many as its depth", found.fetch.full[number] == (inside == 2))


@pytest.mark.slow
@proved(
    accelerator,
    ("faults = [read_error, write_error,", "faults = [write_error,"),
    ("fetch.fault, overflow]", "fetch.fault]"),
    ("*(unit.fault for unit in units), fetch.fault", "fetch.fault, *(unit.fault for unit in units)"),
    induction=1,
    depth=8,
)
def test_of_several_faults_in_a_cycle_the_bus_has_priority_then_units_then_fetch(claim, rtl):
    found, units = machine(claim, rtl)
    over = Cat(*(counter.overflow for counter in found.counters)).any()
    bus = [(found.arbiter.error, FaultCode.READ_ERROR), (found.store.channel.error, FaultCode.WRITE_ERROR)]
    own = [(each.fault != 0, each.fault) for each in (*units.values(), found.fetch)]
    expected = Signal(8)
    for noticed, code in reversed([*bus, *own, (over, FaultCode.TOKEN_OVERFLOW)]):
        with claim.m.If(noticed):
            claim.m.d.comb += expected.eq(code)
    before = claim.begun & claim.before(found.control.running & (expected != 0) & ~found.control.complete)
    claim.always("the first is reported", ~before | (found.control.fault_code == claim.before(expected)))
