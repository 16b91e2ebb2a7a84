"""Checks that refusals of commands are justified.

A refusal with a witness is confirmed by executing the refused schedule instance by instance: what the witness states
must happen. Any other refusal must be one of ``LIMITS`` (invalid requests and unsupported features), each with a check
on the schedule. A refusal that is neither fails.
"""

import re

from executions import confirm
from folds import confirm_lost
from limits import LIMITS
from padded import confirm_added
from random_commands import Command
from stated import Refusal
from symbolic_execution import IterationsOf, steps
from unchecked import carry_out

from lathe.scheduler import LegalityError, PaddingError, PaddingWitness, ParallelismError, Schedule, ScheduleError
from lathe.scheduler.errors import StorageWitness


def check_refusal(error: ScheduleError, schedule: Schedule, command: Command) -> None:
    """Fail unless the refusal of a command is justified; ``schedule`` is a copy from before, and is changed."""
    if isinstance(error, LegalityError):
        carry_out(command, schedule)
        check_witness(error, schedule)
        return
    if isinstance(error, PaddingError):
        check_added(error.witness, schedule)
        return
    for says, holds in LIMITS:
        match = re.match(says, str(error))
        if match is not None:
            assert holds(Refusal(match, schedule, command)), f"{command.text} is refused wrongly: {error}"
            return
    raise AssertionError(f"a refusal that is no named limit, of {command.text}: {error}")


def check_added(witness: PaddingWitness, schedule: Schedule) -> None:
    """Fail unless an instance that a command would add accesses a cell out of bounds, or changes a value."""
    stage = next(stage for stage in schedule.stages if stage.name == witness.stage)
    touched = [(stage.tensor, witness.cell)]
    for name, cell, _ in witness.reads:
        touched.append((next(read.tensor for read in stage.op.reads if read.tensor.name == name), cell))
    if all(0 <= n < extent for tensor, cell in touched for n, extent in zip(cell, tensor.shape, strict=True)):
        confirm_added(schedule, stage.tensor, witness)


def check_witness(error: LegalityError, refused: Schedule) -> None:
    """Fail unless the refused schedule does what the witness of its refusal states."""
    witness = error.witness
    if isinstance(error, ParallelismError):
        confirm_carried(error, refused)
    elif isinstance(witness, StorageWitness) or str(error).startswith("values in buffer"):
        confirm_lost(witness, refused)
    else:
        confirm(witness, refused)


def confirm_carried(error: ParallelismError, refused: Schedule) -> None:
    """Fail unless an iteration of the loop reads a cell that another one writes, and that it has not written itself."""
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
    raise AssertionError(f"no iteration reads what another writes: {error}")
