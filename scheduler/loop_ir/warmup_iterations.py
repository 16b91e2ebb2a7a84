"""Leads: iterations before the first of a loop, in which reuse buffers fill and nothing else happens.

Stages that run a loop together lead alike, or one of them would run ahead of what it reads. A lead is there for the
buffers that fill in it, and goes with the last of them.
"""

from dataclasses import replace
from types import MappingProxyType

from lathe.scheduler.loop_ir.fused_loops import sharing
from lathe.scheduler.schedule_ir.loops import LoopAxis, Split, made_by, replaced_by
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import StageState


def with_lead(stage: StageView, loop: LoopAxis, early: int) -> dict[StageView, StageState]:
    """The states of all stages that run a loop of a stage, with a lead of at least ``early`` iterations.

    None where there is nothing to fill, or the loop of one of them does not begin as an axis does.
    """
    group = {each: own for each, (own,) in sharing(stage, (loop,)).items()}
    if not early or any(_begins_elsewhere(each.state, own) for each, own in group.items()):
        return {}
    found: dict[StageView, StageState] = {}
    for each, own in group.items():
        lead = {**each.state.warmup, own: max(early, each.state.warmup.get(own, 0))}
        found[each] = replace(each.state, warmup=MappingProxyType(lead))
    return found


def leading_alike(stage: StageView, other: StageView, count: int) -> dict[StageView, StageState]:
    """The states of two stages that are about to share their outermost loops, and others there, with the same leads."""
    found: dict[StageView, StageState] = {}
    for one, two in zip(stage.state.leaves[:count], other.state.leaves[:count], strict=True):
        early = max(stage.state.warmup.get(one, 0), other.state.warmup.get(two, 0))
        for each, state in {**with_lead(stage, one, early), **with_lead(other, two, early)}.items():
            lead = {**found.get(each, each.state).warmup, **state.warmup}
            found[each] = replace(state, warmup=MappingProxyType(lead))
    return found


def without_idle_leads(schedule: ScheduleView) -> dict[StageView, StageState]:
    """The states of stages with a lead in which no buffer is filled, without it."""
    leading = [stage for stage in schedule.stages if stage.state.warmup]
    if not leading:
        return {}
    buffers = [each.state.attachment for each in schedule.stages if each.state.reuse]
    filling = {(schedule.at(place), place.axis) for place in buffers if place is not None}
    found: dict[StageView, StageState] = {}
    for stage in leading:
        state = stage.state
        kept = {
            loop: early
            for loop, early in state.warmup.items()
            if any(
                filling & {(each, own) for each, (own,) in sharing(stage, (leaf,)).items()}
                for leaf in _leaves_of(state, loop)
            )
        }
        if len(kept) < len(state.warmup):
            found[stage] = replace(state, warmup=MappingProxyType(kept))
    return found


def _leaves_of(state: StageState, loop: LoopAxis) -> list[LoopAxis]:
    """The present loops that run over what a loop ran over."""
    found = {loop}
    for relation in state.relations:
        if found & set(replaced_by(relation)):
            found |= set(made_by(relation))
    return [leaf for leaf in state.leaves if leaf in found]


def _begins_elsewhere(state: StageState, loop: LoopAxis) -> bool:
    """Whether a loop is a fused, shifted, skewed or mapped one or part of one: it does not begin as an axis does."""
    for relation in reversed(state.relations):
        if loop not in made_by(relation):
            continue
        if not isinstance(relation, Split):
            return True
        loop = relation.parent
    return False
