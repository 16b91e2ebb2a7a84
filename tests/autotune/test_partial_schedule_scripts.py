"""Scripts of partial schedules that are autotuned: they contain the user's primitives, or take the user's schedule."""

import pytest
from error_checks import check_mentions
from random_commands import LOOPS, ORDER
from random_hand_schedules import hand_schedules
from random_networks import networks
from random_programs import Choice
from random_schedules import COPIES, NEIGHBOURS, QUEUES, any_schedule, commands_of

import lathe as lt
from lathe.autotune.schedule_fingerprint import fingerprint
from lathe.autotune.script import script_of
from lathe.frontend import placeholders
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.printer import format_nest

VTA = lt.load_config("vta")


def layer() -> lt.Tensor:
    data = lt.placeholder((1, 14, 14, 32), "int8", name="data")
    weights = lt.placeholder((64, 3, 3, 32), "int8", name="weights")
    return lt.requantise(lt.conv2d(data, weights, padding=1, name="conv"), 8, name="output")


def cycles(schedule):
    outputs = list(schedule.program)
    return lt.simulate(lt.build(schedule, [*placeholders(outputs), *outputs], VTA), timing_only=True).cycles


def ran(script, *arguments):
    names: dict[str, object] = {}
    exec(script, names)
    return names["schedule"](*arguments)


def takes_a_schedule(script):
    return "def schedule(s):" in script


def test_the_script_contains_the_users_primitives():
    output = layer()
    s = lt.create_schedule(output)
    outer, _ = s[output].split(s[output].axis[1], factor=3)
    s[output].reorder(s[output].axis[2], outer)
    found = lt.autoschedule(s, VTA, budget=4, cache=False)
    assert "output.split(output.leaf_axis[1], factor=3)" in found.script
    assert cycles(ran(found.script, output)) == found.cycles != cycles(lt.create_schedule(output))


@pytest.mark.slow
def test_the_users_primitives_come_before_those_of_the_autotuner():
    output = layer()
    s = lt.create_schedule(output)
    s.cache_write(output.op.reads[0].tensor, "acc")
    s.tile_for(scratchpads=2)
    found = lt.autoschedule(s, VTA, budget=4, cache=False)
    assert cycles(ran(found.script, output)) == found.cycles
    data, weights = (lt.placeholder((32, 32), "int8", name=name) for name in ("data", "weights"))
    sums = lt.dense(data, weights, name="sums")
    first, second = lt.requantise(sums, 8, name="first"), lt.compute(32, lambda i: data[i, 0] + 1, name="second")
    s = lt.create_schedule([first, second])
    s[second].split(s[second].op.axis[0], nparts=2)
    found = lt.autoschedule(s, VTA, budget=24, cache=False)
    assert found.steps
    assert cycles(ran(found.script, first, second)) == found.cycles


@pytest.mark.slow
def test_a_tuned_schedule_can_be_tuned_again():
    output = layer()
    first = lt.autoschedule(output, VTA, budget=8, cache=False)
    assert first.steps
    second = lt.autoschedule(first, VTA, budget=2, cache=False)
    assert cycles(ran(second.script, output)) == second.cycles == first.cycles


def by_a_function(s):
    data = s[s.program[0]].op.reads[0].tensor
    s.transform_layout(data, lambda n, h, w, c: (n, w, h, c))


def by_a_buffer(s):
    buffer = s.buffer("shared", (1, 14, 14, 64), "int32", "acc")
    s[s.program[0].op.reads[0].tensor].store_in(buffer)


@pytest.mark.sample(1)
@pytest.mark.parametrize("begin", [by_a_function, by_a_buffer])
def test_if_a_primitive_cannot_be_printed_the_script_takes_the_users_schedule(begin):
    output = layer()
    partial = []
    for _ in range(2):
        s = lt.create_schedule(output)
        begin(s)
        partial.append(s)
    found = lt.autoschedule(partial[0], VTA, budget=3, cache=False)
    assert takes_a_schedule(found.script)
    note = found.script.splitlines()[1]
    assert note.startswith("# ")
    check_mentions(note, "cycles", "user's schedule", "cannot be printed")
    assert cycles(ran(found.script, partial[1])) == found.cycles


def test_the_primitives_of_a_fork_are_unknown():
    s = lt.create_schedule(layer())
    twin = s.fork()
    twin[s.program[0]].split(twin[s.program[0]].axis[1], 3)
    assert s.given == []
    found = lt.autoschedule(twin, VTA, budget=2, cache=False)
    assert takes_a_schedule(found.script)
    assert cycles(ran(found.script, twin)) == found.cycles


def test_refused_primitives_are_not_printed_and_lists_are_printed_as_they_were_passed():
    output = layer()
    s = lt.create_schedule(output)
    with pytest.raises(lt.ScheduleError):
        s[output].split("no loop", 3)
    data = s.stages[0].op.reads[0].tensor
    readers = [s.stages[0]]
    copy = s.cache_read(data, "acc", readers)
    readers.clear()
    script = script_of((), s.given, "")
    assert "no loop" not in script
    again = ran(script, output)
    assert [each.name for each in again.stages] == [each.name for each in s.stages]
    assert s[copy].name in [each.name for each in again.stages]


def nest(schedule):
    """The loop nest as text; the error if some loops need too many chunks."""
    try:
        return format_nest(build_nest(schedule))
    except lt.LatheError as error:
        return str(error)


def check_script(schedule):
    """Check that the script reproduces the schedule; False if it takes the schedule instead."""
    script = script_of((), schedule.given, "")
    if takes_a_schedule(script):
        return False
    again = ran(script, *schedule.program)
    assert fingerprint(again) == fingerprint(schedule)
    assert nest(again) == nest(schedule)
    return True


@pytest.mark.seeds(5, slow=1219, block=40)
def test_scripts_of_random_primitives_reproduce_the_schedule(seeds):
    printed = 0
    for seed in seeds:
        choice = Choice(seed)
        schedule = lt.create_schedule(networks(choice, choice.number(1, 3)))
        for _ in range(choice.number(1, 8)):
            commands_of(choice, schedule, (*LOOPS, *ORDER, *NEIGHBOURS, *QUEUES, *COPIES)).attempt(schedule)
        printed += check_script(schedule)
        check_script(any_schedule(Choice(seed), 8))
        printed += check_script(hand_schedules(Choice(seed), VTA)[0])
    assert printed > len(seeds)
