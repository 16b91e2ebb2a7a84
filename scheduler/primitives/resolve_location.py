"""Locations that arguments of primitives name: a loop of a stage, or the root."""

from lathe.frontend.expr.errors import shown
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.stage import ComputeAt


def is_root(axis: object) -> bool:
    """Whether an argument names the root, outside all loops of a stage."""
    return isinstance(axis, str) and axis == "root"


def location_of(schedule: Edit, at: object, command: str) -> ComputeAt:
    """The compute location that ``(stage or tensor, loop)`` names. Raises ScheduleError for anything else."""
    if not isinstance(at, tuple) or len(at) != 2:
        raise ScheduleError(
            f"at of {command} must be a stage and one of its loops, as in (C, i), not {shown(at)}.", kind="argument"
        )
    anchor = schedule[at[0]]
    return ComputeAt(anchor.id, anchor.find(at[1], command))


def of_the_same_schedule(stage: EditedStage, other: object, what: str, example: str) -> EditedStage:
    """``other``, if it is a stage of the same schedule. Raises ScheduleError if not; ``what`` names it there."""
    if not isinstance(other, EditedStage):
        raise ScheduleError(f"{what} must be a stage, as {example} is, not {shown(other)}.", kind="argument")
    if other.schedule is not stage.schedule:
        raise ScheduleError(
            f"{what} must be a stage of the same schedule, not {other.name!r} of another.", kind="argument"
        )
    return other
