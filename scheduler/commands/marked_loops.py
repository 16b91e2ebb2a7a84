"""What vectorize, parallelize and distribute share: a loop is marked, and its mark checked with the schedule."""

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from lathe.scheduler.state.stage import LoopAxis

if TYPE_CHECKING:
    from lathe.scheduler.stage import Stage


def loop_extent(stage: "Stage", loop: LoopAxis) -> int:
    """The number of iterations of a present loop."""
    from lathe.scheduler.nest.place import place_stages

    return place_stages(stage.schedule)[stage].loops.extents[loop]


def mark_loop(stage: "Stage", loop: LoopAxis, mark: str) -> None:
    """Mark a loop; raises ScheduleError if it is not parallel."""
    marks = MappingProxyType({**stage.state.marks, loop: mark})
    stage.update(replace(stage.state, marks=marks), mark)
