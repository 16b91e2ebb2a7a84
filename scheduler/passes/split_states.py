"""States that one computation defines together, for a machine that computes one after the other.

Each becomes a stage of its own in the loops that carry the cycle. What they read of each other is of earlier points, so
within one point any order will do.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from lathe.scheduler.algorithm.rewrite import renamed_axes
from lathe.scheduler.nest.cycles import circles, shared_loops
from lathe.scheduler.passes.split_outputs import Loops, twin
from lathe.scheduler.state.stage import DRAM, Attachment

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule
    from lathe.scheduler.stage import Stage


def separate_states(schedule: "Schedule") -> None:
    """Separate, in place, the states of every computation of a cycle that has several and nothing placed inside it."""
    for stage in [each for group in circles(schedule) for each in group if len(each.state.tensors) > 1]:
        inside = schedule.attached(stage)
        places = [each.state.attachment for each in inside]
        if stage.state.scope == DRAM and stage.state.pragma is None and all(place and place.loops for place in places):
            _separate(schedule, stage, inside)


def _separate(schedule: "Schedule", stage: "Stage", inside: "list[Stage]") -> None:
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
            part.state = replace(part.state, attachment=replace(place, loops=tuple(map(loops, place.loops))))
        elif part is not host:
            attachment = Attachment(host, host.state.leaves[count - 1], part.state.leaves[:count])
            part.state = replace(part.state, attachment=attachment)
    for guest in inside:
        attached = guest.state.attachment
        assert attached is not None
        guest.state = replace(guest.state, attachment=replace(attached, stage=host, axis=made[-1](attached.axis)))
    position = schedule.stages.index(stage)
    schedule.stages = [*schedule.stages[:position], *parts, *schedule.stages[position + 1 :]]
