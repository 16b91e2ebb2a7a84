"""Places that arguments of commands name: a loop of a stage, or the one outside all loops."""

from lathe.frontend.expr.errors import shown
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.stage import ComputeAt


def is_root(axis: object) -> bool:
    """Whether an argument is the word for the whole of a stage, outside its loops."""
    return isinstance(axis, str) and axis == "root"


def place_of(schedule: Edit, at: object, command: str) -> ComputeAt:
    """The loop that a stage, or its tensor, and one of its loops name. Raises ScheduleError if they name none."""
    if not isinstance(at, tuple) or len(at) != 2:
        raise ScheduleError(
            f"at of {command} must be a stage and one of its loops, as in (C, i), not {shown(at)}.", kind="argument"
        )
    host = schedule[at[0]]
    return ComputeAt(host.id, host.find(at[1], command))


def of_the_same_schedule(stage: EditedStage, other: object, what: str, example: str) -> EditedStage:
    """Another stage of the schedule of a stage. Raises ScheduleError for what is none; ``what`` is it called there."""
    if not isinstance(other, EditedStage):
        raise ScheduleError(f"{what} must be a stage, as {example} is, not {shown(other)}.", kind="argument")
    if other.schedule is not stage.schedule:
        raise ScheduleError(
            f"{what} must be a stage of the same schedule, not {other.name!r} of another.", kind="argument"
        )
    return other
