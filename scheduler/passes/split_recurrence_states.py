"""States that one computation defines together, for a machine that computes one after the other.

Each becomes a stage of its own in the loops that carry the cycle. What they read of each other is of earlier points, so
within one point any order will do.
"""

from collections.abc import Sequence
from dataclasses import replace

from lathe.scheduler.loop_ir.recurrences import recurrence_groups, shared_loops
from lathe.scheduler.primitives.split_tuple import Loops, twin
from lathe.scheduler.rewriting.rewrite import renamed_axes
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.stage import ComputeAt


def split_states(schedule: Edit) -> None:
    """Separate, in place, the states of every computation of a cycle that has several and nothing placed inside it."""
    for stage in [each for group in recurrence_groups(schedule) for each in group if len(each.state.tensors) > 1]:
        inside = schedule.attached(stage)
        places = [each.state.attachment for each in inside]
        if stage.state.scope == DRAM and stage.state.pragma is None and all(place and place.loops for place in places):
            _separate(schedule, schedule.own(stage), inside)


def _separate(schedule: Edit, stage: EditedStage, inside: Sequence[EditedStage]) -> None:
    state, old = stage.state, stage.state.computation
    count = max(shared_loops(stage), 1)
    made = [Loops() for _ in state.tensors]
    parts = [
        twin(schedule, state, renamed_axes(replace(old, name=tensor.name, bodies=(body,)), tensor.name), tensor, loops)
        for tensor, body, loops in zip(state.tensors, old.bodies, made, strict=True)
    ]
    host, place = parts[-1], state.attachment
    for part, loops in zip(parts, made, strict=True):
        if place is not None:  # all in the loops of the cycle's last stage
            part.change(attachment=replace(place, loops=tuple(map(loops, place.loops))))
        elif part is not host:
            attachment = ComputeAt(host.id, host.state.leaves[count - 1], part.state.leaves[:count])
            part.change(attachment=attachment)
    for guest in inside:
        attached = guest.state.attachment
        assert attached is not None
        guest.change(attachment=replace(attached, host=host.id, axis=made[-1](attached.axis)))
    position = schedule.stages.index(stage)
    schedule.reorder_stages([*schedule.stages[:position], *parts, *schedule.stages[position + 1 :]])
