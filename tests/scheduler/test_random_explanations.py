"""Random schedules: ``explain`` never fails, and says that a schedule maps if and only if ``build`` makes a program."""

import json

import pytest
from random_commands import commands
from random_layouts import layouts
from random_networks import loops, machines, networks
from random_programs import Choice, programs
from seeds import check_each, event, note

from lathe.configs import LatheError, load_config
from lathe.frontend import format_program, placeholders
from lathe.scheduler import CapacityError, EmitError, Schedule, ScheduleError, build, create_schedule

KINDS = ("split", "reorder", "fuse", "compute_at", "set_scope", "cache_read", "cache_write", "emit_insn")


def check_explanation(schedule: Schedule, config) -> None:
    found = schedule.explain(config)
    try:
        build(schedule, [*placeholders(schedule.program), *schedule.program], config)
        refusal = None
    except LatheError as error:
        refusal = error
    event("maps" if refusal is None else f"refused: {type(refusal).__name__}")
    assert found.maps == (refusal is None), f"{found}\n{refusal}"
    assert json.loads(json.dumps(found.to_dict()))["maps"] == found.maps
    assert str(found).startswith(f"on {config.name}: ")
    assert found.classes
    if isinstance(refusal, EmitError) and refusal.constraint:
        assert any(each.constraint == refusal.constraint for each in found.classes)
    if isinstance(refusal, CapacityError):
        assert str(refusal) in [each.message for each in found.refusals]


def check_operators(seed: int) -> None:
    choice = Choice(seed)
    config = machines(choice)
    outputs = networks(choice, choice.number(1, 2))
    schedule = create_schedule(outputs)
    note(format_program(outputs))
    if choice.number(0, 1):
        note(str(loops(choice, schedule, 2)))
    if choice.number(0, 2) == 0:
        command = layouts(choice, schedule)
        note(command.text)
        try:
            command.run(schedule)
        except ScheduleError:
            note("refused")
    check_explanation(schedule, config)


@pytest.mark.seeds(20, slow=100, block=10)
def test_of_operators(seeds):
    check_each(seeds, check_operators)


def check_by_hand(seed: int, name: str) -> None:
    choice = Choice(seed)
    outputs = programs(choice, choice.number(1, 3))
    schedule = create_schedule(outputs)
    note(format_program(outputs))
    for _ in range(choice.number(1, 6)):
        command = commands(choice, schedule, KINDS)
        try:
            command.run(schedule)
            note(command.text)
        except ScheduleError:
            note(f"refused: {command.text}")
    check_explanation(schedule, load_config(name))


@pytest.mark.parametrize("name", ["vta", "tiny"])
@pytest.mark.seeds(40, slow=80)
def test_of_programs_by_hand(name, seeds):
    check_each(seeds, check_by_hand, name)
