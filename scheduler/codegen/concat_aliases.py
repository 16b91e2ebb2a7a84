"""Tensors that are parts of others in DRAM: where they lie, and what nothing is left to do for."""

from lathe.frontend import Tensor
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView


def stored_as_parts(schedule: ScheduleView) -> frozenset[StageView]:
    """Stages of which all is there when their parts are stored, and what would be loaded and computed for these."""
    found: set[StageView] = set()
    for stage in reversed(schedule.stages):
        readers = schedule.readers(stage.tensor)
        passing = stage.state.scope != DRAM and readers and all(reader in found for reader in readers)
        if stage.state.concat_of or passing:
            found.add(stage)
    return frozenset(found)


def stored_together(schedule: ScheduleView) -> dict[Tensor, tuple[Tensor, ...]]:
    """Of tensors that are parts of others, and of these, all that lie in one form with them."""
    groups = [(stage.tensor, *(part for part, _ in stage.state.concat_of)) for stage in schedule.stages]
    return {tensor: group for group in groups if len(group) > 1 for tensor in group}


def wholes_of_parts(schedule: ScheduleView) -> dict[Tensor, tuple[StageView, int]]:
    """Of tensors that are stored as parts of others the stage of the other, and the first column there."""
    return {tensor: (stage, first) for stage in schedule.stages for tensor, first in stage.state.concat_of}
