"""Stages of several outputs become one for each: the machine computes one output after the other."""

from lathe.scheduler.primitives.split_tuple import split_by_output, tied_stage
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.target.target import Target


def split_outputs(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Separate, in place, the outputs of every stage that is stored as a whole, wherever its loops allow."""
    for stage in [each for each in schedule.stages if len(each.state.tensors) > 1]:
        state = stage.state
        if state.scope != DRAM or state.pragma is not None or state.attachment or tied_stage(schedule, stage):
            continue
        stages, changes = split_by_output(schedule, stage, 0)
        schedule.put(changes)
        schedule.reorder_stages(stages)
