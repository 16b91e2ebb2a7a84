"""Random schedules: ``explain`` never fails, and says that a schedule maps if and only if ``build`` succeeds."""

import json

import pytest
from random_commands import LOOPS, commands
from random_layouts import layouts
from random_networks import loops, machines, networks
from random_programs import Choice, programs
from seeds import check_each, event, note
from shares import BUILD, COMMAND, Shares, check_shares

from lathe.configs import LatheError, load_config
from lathe.frontend import format_program, placeholders
from lathe.scheduler import CapacityError, EmitError, Schedule, build, create_schedule


def check_explanation(schedule: Schedule, config) -> None:
    found = schedule.explain(config)
    try:
        build(schedule, [*placeholders(schedule.program), *schedule.program], config)
        refusal = None
    except LatheError as error:
        refusal = error
    event(f"build: {'accepted' if refusal is None else refusal.kind}")
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
        layouts(choice, schedule).attempt(schedule)
    check_explanation(schedule, config)


@pytest.mark.slow
@pytest.mark.seeds(4, slow=116, block=10)
def test_of_operators(seeds):
    happened = check_each(seeds, check_operators)
    check_shares(happened, BUILD, Shares(0.98, {"machine": 0.02}))


def check_by_hand(seed: int, name: str) -> None:
    choice = Choice(seed)
    outputs = programs(choice, choice.number(1, 3))
    schedule = create_schedule(outputs)
    note(format_program(outputs))
    for _ in range(choice.number(1, 6)):
        commands(choice, schedule, LOOPS).attempt(schedule)
    check_explanation(schedule, load_config(name))


@pytest.mark.parametrize("name", ["vta", "tiny"])
@pytest.mark.seeds(8, slow=112)
def test_of_programs_by_hand(name, seeds):
    happened = check_each(seeds, check_by_hand, name)
    check_shares(happened, COMMAND, Shares(0.65, {"argument": 0.22, "legality": 0.03, "machine": 0.06, "limit": 0.12}))
    check_shares(happened, BUILD, Shares(0.4, {"machine": 0.56, "limit": 0.07}))
