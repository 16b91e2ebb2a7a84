"""Concatenations without copies: tensors that are stored as slices of another tensor in DRAM."""

from lathe.frontend import Tensor
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView


def elided_concats(schedule: ScheduleView) -> frozenset[StageView]:
    """Stages that need no instructions: concatenations of stored slices, and scratchpad stages that only these read."""
    found: set[StageView] = set()
    for stage in reversed(schedule.stages):
        consumers = schedule.consumers(stage.tensor)
        unneeded = stage.state.scope != DRAM and consumers and all(each in found for each in consumers)
        if stage.state.concat_of or unneeded:
            found.add(stage)
    return frozenset(found)


def concat_groups(schedule: ScheduleView) -> dict[Tensor, tuple[Tensor, ...]]:
    """For each concatenation without copy, and each of its slices: all of these tensors, which share one layout."""
    groups = [(stage.tensor, *(operand for operand, _ in stage.state.concat_of)) for stage in schedule.stages]
    return {tensor: group for group in groups if len(group) > 1 for tensor in group}


def concat_slices(schedule: ScheduleView) -> dict[Tensor, tuple[StageView, int]]:
    """For each tensor stored as a slice of another: the stage of the other, and the slice's first column."""
    return {tensor: (stage, first) for stage in schedule.stages for tensor, first in stage.state.concat_of}
