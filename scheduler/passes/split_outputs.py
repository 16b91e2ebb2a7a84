"""Split tuples: a stage with several outputs becomes one stage per output, as a stage on a machine computes one."""

from lathe.scheduler.primitives.split_tuple import split_by_output, uncloneable_stage
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.target.target import Target


def split_outputs(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Split, in place, every root-level DRAM stage with several outputs whose loops allow it."""
    for stage in [each for each in schedule.stages if len(each.state.tensors) > 1]:
        state = stage.state
        if state.scope != DRAM or state.pragma is not None or state.attachment or uncloneable_stage(schedule, stage):
            continue
        stages, changes = split_by_output(schedule, stage, 0)
        schedule.put(changes)
        schedule.reorder_stages(stages)
