"""Random schedules of random programs: what is accepted means what NumPy means, and every refusal is right."""

from collections import Counter

import pytest
from executions import Instance, execution
from folds import lost_reads
from hypothesis import event, given, note, settings
from hypothesis import strategies as st
from meanings import check_values
from random_programs import Choice, programs, random_inputs
from random_schedules import any_command
from refusals import check_refusal
from rings import check_rings
from symbolic_execution import steps

from lathe.configs import load_config
from lathe.frontend import format_program, placeholders
from lathe.scheduler import LegalityError, Schedule, ScheduleError, create_schedule, interpret, lower
from lathe.scheduler.completion import copied

CONFIG = load_config("tiny")
SEEDS = st.integers(0, 2**40)


def text_of(schedule: Schedule) -> str:
    tensors = [*placeholders(schedule.program), *schedule.program]
    return "".join(lower(schedule, tensors, CONFIG, stage) for stage in ("order", "loops"))


def check_random_schedule(seed: int, most_computations: int, most_commands: int) -> None:
    choice = Choice(seed)
    schedule = create_schedule(programs(choice, choice.number(1, most_computations)))
    note(format_program(list(schedule.program)))
    for _ in range(choice.number(1, most_commands)):
        command = any_command(choice, schedule)
        before, kept = copied(schedule), text_of(schedule)
        try:
            command.run(schedule)
            note(command.text)
        except ScheduleError as error:
            event("refused with a witness" if isinstance(error, LegalityError) else "refused as a limit")
            note(f"refused: {command.text}: {error}")
            assert text_of(schedule) == kept
            check_refusal(error, before, command)
    check_meaning(schedule)


def check_meaning(schedule: Schedule) -> None:
    """Values are NumPy's; partitioning loses no instance and makes none; rings and folded cells lose no value."""
    outputs = list(schedule.program)
    inputs = random_inputs(outputs, seed=1)
    check_values(interpret(schedule, inputs), outputs, inputs)
    if not any(stage.state.threads for stage in schedule.stages):
        symbolic = Counter((step.stage, step.role, tuple(step.point.values())) for step in steps(schedule))
        instances = [each for each in execution(schedule) if isinstance(each, Instance)]
        parted = Counter((i.node.placement.stage, i.node.role, tuple(i.point.values())) for i in instances)
        assert symbolic == parted
        assert not list(lost_reads(schedule))
        if not any(stage.state.storage for stage in schedule.stages):
            check_rings(schedule)


@settings(max_examples=1000, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_every_accepted_schedule_keeps_the_meaning_and_every_refusal_is_right(seed):
    check_random_schedule(seed, 5, 12)


@pytest.mark.nightly
@settings(max_examples=20000, deadline=None, print_blob=True)
@given(seed=SEEDS)
def test_the_same_for_many_more_and_larger_ones(seed):
    check_random_schedule(seed, 7, 20)
