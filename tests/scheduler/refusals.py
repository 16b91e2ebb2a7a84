"""Refusals of commands held against the schedule itself.

A refusal with a witness is confirmed by execution: the refused schedule is carried out, instance by instance, and what
the witness says happens. Every other refusal is one of ``LIMITS``: what a request may not ask for and what the language
leaves out, each with a way of seeing on the schedule that it is so. A refusal that is neither fails.
"""

import re
from contextlib import nullcontext, suppress
from typing import Any
from unittest import mock

from executions import confirm
from folds import confirm_lost
from limits import LIMITS, Refusal
from random_commands import Command
from symbolic_execution import IterationsOf, steps

from lathe.scheduler import LegalityError, ParallelismError, Schedule, ScheduleError
from lathe.scheduler.errors import StorageWitness, Witness
from lathe.scheduler.legality import check_schedule


def check_refusal(error: ScheduleError, schedule: Schedule, command: Command) -> None:
    """Fail unless the refusal of a command is right; ``schedule`` is a copy from before, and is changed."""
    if isinstance(error, LegalityError):
        carry_out(command, schedule)
        check_witness(error, schedule)
        return
    for says, holds in LIMITS:
        match = re.match(says, str(error))
        if match is not None:
            assert holds(Refusal(match, schedule, command)), f"{command.text} is refused wrongly: {error}"
            return
    raise AssertionError(f"a refusal that is no named limit, of {command.text}: {error}")


class _EnoughError(Exception):
    """What was refused has been done."""


def carry_out(command: Command, schedule: Schedule) -> None:
    """Do what a command is refused with a witness for, and nothing of the command that would come after it."""
    done = False

    def check(*arguments: Any) -> None:
        nonlocal done
        if done:
            raise _EnoughError
        try:
            check_schedule(*arguments)
        except LegalityError:
            done = True

    parts = mock.patch.object(Schedule, "all_or_nothing", return_value=nullcontext())
    with mock.patch("lathe.scheduler.legality.check_schedule", check), parts, suppress(_EnoughError, ScheduleError):
        command.run(schedule)
    assert done, f"{command.text} is not refused on a copy of the schedule"


def check_witness(error: LegalityError, refused: Schedule) -> None:
    """Fail unless the refused schedule does what the witness of its refusal says."""
    witness = error.witness
    buffer = re.match(r"values in buffer \S+ must live within one iteration of loop (\S+) of (\S+),", str(error))
    if isinstance(error, ParallelismError):
        confirm_carried(error, refused)
    elif isinstance(witness, StorageWitness):
        confirm_lost(witness, refused)
    elif buffer is not None:
        if not _is_outside(refused, witness, buffer[2], buffer[1]):
            confirm_lost(witness, refused)
    else:
        confirm(witness, refused)


def _is_outside(schedule: Schedule, witness: Witness, host: str, loop: str) -> bool:
    """Whether the stages of a witness are computed outside a loop, where what lives in its iterations is not."""
    stage = next(stage for stage in schedule.stages if stage.name == host)
    iterations = [IterationsOf(stage, leaf) for leaf in stage.leaf_axis if leaf.name == loop]
    named = [step for step in steps(schedule) if step.stage.name in (witness.producer_stage, witness.consumer_stage)]
    return all(any(iteration(step) is None for step in named) for iteration in iterations)


def confirm_carried(error: ParallelismError, refused: Schedule) -> None:
    """Fail unless an iteration of the loop reads what another one makes, and it has not made itself."""
    match = re.match(r"loop (\S+) of stage (\S+) must be parallel", str(error))
    assert match is not None, f"no loop in {error}"
    host = next(stage for stage in refused.stages if stage.name == match[2])
    witness = error.witness
    for loop in (leaf for leaf in host.leaf_axis if leaf.name == match[1]):
        iteration = IterationsOf(host, loop)
        made: set[object] = set()
        wanting: set[object] = set()
        for step in steps(refused):
            at = iteration(step)
            axes = step.stage.op.axes
            if at is None:
                continue
            if step.stage.name == witness.producer_stage and tuple(step.point[a] for a in axes) == witness.cell:
                made.add(at)
            names = [axis.name for axis in (*axes, *step.stage.op.reduce_axes)]
            reads = step.stage.name == witness.consumer_stage and step.role != "init"
            if reads and dict(zip(names, step.point.values(), strict=True)) == witness.consumer and at not in made:
                wanting.add(at)
        if any(one[0] == other[0] and one != other for one in wanting for other in made):
            return
    raise AssertionError(f"no iteration reads what another makes: {error}")
