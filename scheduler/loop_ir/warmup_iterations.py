"""Warm-up: iterations before the first of a loop, in which only reuse buffers are filled.

Fused stages have the same warm-up, or one of them would run ahead of what it reads. A loop has a warm-up as long as
there are buffers that fill in it.
"""

from dataclasses import replace
from types import MappingProxyType

from lathe.scheduler.loop_ir.fused_loops import fused_stages
from lathe.scheduler.schedule_ir.loops import LoopAxis, Split, created_loops, replaced_loops
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import StageState


def with_warmup(stage: StageView, loop: LoopAxis, early: int) -> dict[StageView, StageState]:
    """The states of all stages that run a loop of a stage, with a warm-up of at least ``early`` iterations.

    Empty where there is nothing to fill, or the loop of one of them does not begin where an axis begins.
    """
    group = {each: own for each, (own,) in fused_stages(stage, (loop,)).items()}
    if not early or any(_begins_elsewhere(each.state, own) for each, own in group.items()):
        return {}
    found: dict[StageView, StageState] = {}
    for each, own in group.items():
        warmup = {**each.state.warmup, own: max(early, each.state.warmup.get(own, 0))}
        found[each] = replace(each.state, warmup=MappingProxyType(warmup))
    return found


def with_equal_warmups(stage: StageView, other: StageView, count: int) -> dict[StageView, StageState]:
    """The states, with equal warm-ups, of two stages whose outermost loops will be fused, and of those fused there."""
    found: dict[StageView, StageState] = {}
    for one, two in zip(stage.state.leaves[:count], other.state.leaves[:count], strict=True):
        early = max(stage.state.warmup.get(one, 0), other.state.warmup.get(two, 0))
        for each, state in {**with_warmup(stage, one, early), **with_warmup(other, two, early)}.items():
            warmup = {**found.get(each, each.state).warmup, **state.warmup}
            found[each] = replace(state, warmup=MappingProxyType(warmup))
    return found


def without_idle_warmups(schedule: ScheduleView) -> dict[StageView, StageState]:
    """The states of stages that have a warm-up in which no buffer is filled, without it."""
    candidates = [stage for stage in schedule.stages if stage.state.warmup]
    if not candidates:
        return {}
    buffers = [each.state.attachment for each in schedule.stages if each.state.reuse]
    filling = {(schedule.at(place), place.axis) for place in buffers if place is not None}
    found: dict[StageView, StageState] = {}
    for stage in candidates:
        state = stage.state
        used = {
            loop: early
            for loop, early in state.warmup.items()
            if any(
                filling & {(each, own) for each, (own,) in fused_stages(stage, (leaf,)).items()}
                for leaf in _leaves_of(state, loop)
            )
        }
        if len(used) < len(state.warmup):
            found[stage] = replace(state, warmup=MappingProxyType(used))
    return found


def _leaves_of(state: StageState, loop: LoopAxis) -> list[LoopAxis]:
    """The loops that a loop has been replaced by, or the loop itself."""
    found = {loop}
    for relation in state.relations:
        if found & set(replaced_loops(relation)):
            found |= set(created_loops(relation))
    return [leaf for leaf in state.leaves if leaf in found]


def _begins_elsewhere(state: StageState, loop: LoopAxis) -> bool:
    """Whether a loop is, or is split from, a fused, shifted, skewed or mapped one, and does not begin with an axis."""
    for relation in reversed(state.relations):
        if loop not in created_loops(relation):
            continue
        if not isinstance(relation, Split):
            return True
        loop = relation.parent
    return False
