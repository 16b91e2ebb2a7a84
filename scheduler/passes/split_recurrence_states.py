"""Split recurrence states: one stage per state of a computation that defines several states together.

The machine computes one state after the other, each stage in the loops that carry the recurrence. States read each
other's values of earlier iterations only, so any order is legal within an iteration.
"""

from collections.abc import Sequence
from dataclasses import replace

from lathe.scheduler.loop_ir.recurrences import loops_outside_blocks, recurrence_groups
from lathe.scheduler.primitives.split_tuple import CloneLoops, clone_stage
from lathe.scheduler.rewriting.rewrite import with_new_axes
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.stage import ComputeAt


def split_states(schedule: Edit) -> None:
    """Split, in place, every recurrence computation with several states, unless stages are computed inside it."""
    for stage in [each for group in recurrence_groups(schedule) for each in group if len(each.state.tensors) > 1]:
        inside = schedule.attached(stage)
        places = [each.state.attachment for each in inside]
        if stage.state.scope == DRAM and stage.state.pragma is None and all(each and each.loops for each in places):
            _split(schedule, schedule.own(stage), inside)


def _split(schedule: Edit, stage: EditedStage, inside: Sequence[EditedStage]) -> None:
    state, old = stage.state, stage.state.computation
    count = max(loops_outside_blocks(stage), 1)
    loop_maps = [CloneLoops() for _ in state.tensors]
    stages = [
        clone_stage(
            schedule, state, with_new_axes(replace(old, name=tensor.name, bodies=(body,)), tensor.name), tensor, loops
        )
        for tensor, body, loops in zip(state.tensors, old.bodies, loop_maps, strict=True)
    ]
    last, location = stages[-1], state.attachment
    for each, loops in zip(stages, loop_maps, strict=True):
        if location is not None:  # all run in the loops of the recurrence's last stage
            each.change(attachment=replace(location, loops=tuple(map(loops, location.loops))))
        elif each is not last:
            attachment = ComputeAt(last.id, last.state.leaves[count - 1], each.state.leaves[:count])
            each.change(attachment=attachment)
    for guest in inside:
        attached = guest.state.attachment
        assert attached is not None
        guest.change(attachment=replace(attached, enclosing=last.id, axis=loop_maps[-1](attached.axis)))
    position = schedule.stages.index(stage)
    schedule.reorder_stages([*schedule.stages[:position], *stages, *schedule.stages[position + 1 :]])
