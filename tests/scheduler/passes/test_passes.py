"""The pass pipeline: invariants that a pass requires hold before it, and those that it establishes hold to the end."""

import pytest
from random_networks import machines
from random_operators import OperatorProgram
from random_programs import Choice
from random_schedules import MOST_ON_MACHINE, any_schedule
from seeds import check_each, event, note

from lathe.configs import HardwareConfig, LatheError, load_config
from lathe.frontend import compute, format_program, placeholder
from lathe.scheduler import Schedule, create_schedule, lower
from lathe.scheduler.passes.invariants import LEGAL, Invariant
from lathe.scheduler.passes.pipeline import PASSES
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.target.target import Target


def test_required_invariants_are_established_before():
    given = {LEGAL}
    for each in PASSES:
        assert set(each.requires) <= given, f"{each.name} needs {set(each.requires) - given}"
        given |= set(each.establishes)


def test_pass_names_are_unique():
    assert len({each.name for each in PASSES}) == len(PASSES)


def check_after_each(schedule: Schedule, config: HardwareConfig) -> None:
    """Invariants hold after every later pass, reads are legal, and passes do not change the state they are given."""
    state, given, target = schedule.state, dict[Invariant, str](), Target(config)
    for each in PASSES:
        before = state, dict(state.stages)
        try:
            state = each.apply(state, target)
        except LatheError:
            event("refused")
            return
        assert dict(before[0].stages) == before[1], f"{each.name} has changed the state it was given"
        given |= dict.fromkeys((LEGAL, *each.establishes), each.name)
        for known, since in given.items():
            counterexample = known.counterexample(Edit(state), target)
            assert counterexample is None, f"{known.name}, given by {since}, fails after {each.name}: {counterexample}"
    event("complete")


def check_programs_of_operators(seed: int) -> None:
    choice = Choice(seed)
    config = machines(choice)
    outputs = OperatorProgram(choice, choice.number(1, 5)).outputs
    note(f"{config}\n{format_program(outputs)}")
    check_after_each(create_schedule(outputs), config)


@pytest.mark.slow
@pytest.mark.seeds(20, slow=200)
def test_of_default_schedules(seeds):
    assert check_each(seeds, check_programs_of_operators)["refused"] == 0


def check_any_schedule(seed: int) -> None:
    choice = Choice(seed)
    schedule = any_schedule(choice, 8)
    name = choice.pick(["tiny", "vta", "batch4", "wide", "lathe16"])
    note(name)
    if sum(each.executed for each in schedule.count().stages.values()) <= MOST_ON_MACHINE:
        check_after_each(schedule, load_config(name))


@pytest.mark.seeds(4, slow=216)
def test_of_schedules_with_commands(seeds):
    happened = check_each(seeds, check_any_schedule)
    assert happened["complete"] > happened["refused"]


def test_lower_shows_a_schedule_after_each_pass():
    A = placeholder((4, 16), "int8", "A")
    C = compute((4, 16), lambda i, j: A[i, j] + 1, "C", where=lambda i, j: i >= 1 + j * 0)
    texts = {each.name: lower(C, [A, C], load_config("vta"), each.name) for each in PASSES}
    assert "C[i, j] = A[i, j] + 1 while" in texts["assign-memory-scopes"]
    assert "C[i, j] = select(" in texts["legalize-domains"]
    assert "C.acc" not in texts["resolve-layout-conflicts"]
    assert "C.acc" in texts["tile-and-fuse"]
