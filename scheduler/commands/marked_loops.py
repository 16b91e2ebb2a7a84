"""What vectorize, parallelize and distribute share: a loop is marked, and its mark checked with the schedule."""

from dataclasses import replace
from types import MappingProxyType

from lathe.scheduler.commands.commit import commit
from lathe.scheduler.state.edit import EditedStage
from lathe.scheduler.state.loops import LoopAxis


def mark_loop(stage: EditedStage, loop: LoopAxis, mark: str) -> None:
    """Mark a loop; raises ScheduleError if it is not parallel."""
    marks = MappingProxyType({**stage.state.marks, loop: mark})
    commit(stage.schedule, {stage: replace(stage.state, marks=marks)}, mark)
