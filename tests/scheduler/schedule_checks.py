"""Random schedules checked against NumPy and plain-Python execution, and their refusals for justification."""

from collections import Counter

from executions import Instance, execution
from folds import lost_reads
from meanings import check_values
from random_programs import Choice, random_inputs
from random_schedules import any_command
from refusals import check_refusal
from rings import check_rings
from seeds import note
from symbolic_execution import steps

from lathe.configs import load_config
from lathe.frontend import Tensor, format_program, placeholders
from lathe.scheduler import Schedule, ScheduleError, create_schedule, interpret, lower

CONFIG = load_config("tiny")
MOST_INSTANCES = 20_000
"""Schedules with more instances are not executed in plain Python: a million of them take a second or more."""


def text_of(schedule: Schedule) -> str:
    tensors = [*placeholders(schedule.program), *schedule.program]
    return "".join(lower(schedule, tensors, CONFIG, stage) for stage in ("order", "loops"))


def check_schedules_of(outputs: list[Tensor], choice: Choice, most_commands: int) -> Schedule:
    """Apply random commands to a program: accepted ones must preserve its values, refusals must be justified."""
    schedule = create_schedule(outputs)
    note(format_program(outputs))
    for _ in range(choice.number(1, most_commands)):
        command = any_command(choice, schedule)
        before, kept = schedule.fork(), text_of(schedule)
        for error in command.attempt(schedule):
            assert isinstance(error, ScheduleError)
            assert text_of(schedule) == kept
            check_refusal(error, before, command)
    check_meaning(schedule)
    return schedule


def check_meaning(schedule: Schedule) -> None:
    """Check that values are NumPy's, partitioning preserves all instances, and rings and folds lose no value."""
    outputs = list(schedule.program)
    inputs = random_inputs(outputs, seed=1)
    instances: dict[str, int] = {}
    check_values(interpret(schedule, inputs, instances=instances), outputs, inputs)
    counted = schedule.count().stages
    for name, each in counted.items():
        assert each.executed == instances.get(name, 0) if each.exact else each.executed >= instances.get(name, 0), name
    few = sum(each.executed for each in counted.values()) < MOST_INSTANCES
    if few and not any(stage.state.threads for stage in schedule.stages):
        symbolic = Counter((step.stage, step.role, tuple(step.point.values())) for step in steps(schedule))
        instances = [each for each in execution(schedule) if isinstance(each, Instance)]
        parted = Counter((i.node.placement.stage, i.node.role, tuple(i.point.values())) for i in instances)
        assert symbolic == parted
        assert not list(lost_reads(schedule))
        if not any(stage.state.storage for stage in schedule.stages):
            check_rings(schedule)
