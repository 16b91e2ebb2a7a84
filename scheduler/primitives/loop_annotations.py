"""What vectorize, parallelize and distribute share: a loop is marked, and its mark checked with the schedule."""

from dataclasses import replace
from types import MappingProxyType

from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import LoopAxis


def mark_loop(stage: EditedStage, loop: LoopAxis, mark: str) -> None:
    """Mark a loop; raises ScheduleError if it is not parallel."""
    marks = MappingProxyType({**stage.state.annotations, loop: mark})
    commit(stage.schedule, {stage: replace(stage.state, annotations=marks)}, mark)
