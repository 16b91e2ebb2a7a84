"""Recurrences: stages that need each other's earlier values, and the loops that carry them.

The stages of a recurrence run in the same loops, which the frontend has found (``lathe.frontend.tensor.recurrences``):
the last stage encloses the others. No stage is complete before its consumers begin.
"""

from functools import partial

import islpy as isl

from lathe.frontend.arith.linear import bound_range
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.instances import cells_read, cells_written, equal_loops
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.schedule_ir.dataflow_graph import producers_of, reachable
from lathe.scheduler.schedule_ir.loops import created_loops, replaced_loops
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import ComputeAt


def recurrence_groups(schedule: ScheduleView) -> list[list[StageView]]:
    """The recurrences (strongly connected components) of a schedule, each in the order of the stages."""
    producers = partial(producers_of, schedule)
    from_stage = {each: reachable(producers(each), producers) for each in schedule.stages}
    groups: list[list[StageView]] = []
    for stage in schedule.stages:
        if stage in from_stage[stage] and not any(stage in group for group in groups):
            groups.append([each for each in schedule.stages if each in from_stage[stage] and stage in from_stage[each]])
    return groups


def recurrence_of(schedule: ScheduleView, stage: StageView) -> list[StageView]:
    """The stages of the recurrence that a stage is in, or none."""
    groups = recurrence_groups(schedule) if schedule.has_recurrences else []
    return next((group for group in groups if stage in group), [])


def innermost_carrying_loop(stage: StageView) -> ComputeAt:
    """The innermost of the loops that carry the recurrence of a stage, as a compute location."""
    location = stage.state.attachment
    if location is not None:
        return ComputeAt(location.enclosing, location.axis)
    return ComputeAt(stage.id, stage.state.leaves[max(loops_outside_blocks(stage), 1) - 1])


def preceding_consumers(schedule: ScheduleView, stage: StageView) -> list[StageView]:
    """The consumers of a stage that precede it, and so read what its earlier iterations have computed."""
    here = schedule.stages.index(stage)
    return [
        consumer
        for consumer in schedule.stages[: here + 1]
        if any(read.tensor in stage.state.tensors for read in consumer.state.computation.reads)
    ]


def _is_computed_at(stage: StageView) -> bool:
    """Whether a stage is computed in a loop, as far as the iteration needs."""
    location = stage.state.attachment
    return location is not None and not location.loops


def carried_loops(placement: StageRegion) -> int:
    """How many of a stage's own loops carry its dependence on itself, so that they must stay outside its blocks."""
    pairs = _own_pairs(placement)
    if pairs is None:
        return 0
    outside = len(placement.prefix)
    for level in range(outside, len(placement.around) + 1):
        if pairs.intersect(equal_loops(pairs.get_space(), level)).is_empty():
            return level - outside
    raise AssertionError(f"{placement.stage.name} reads a cell in the instance that computes it")


def _own_pairs(placement: StageRegion) -> isl.Map | None:
    """From instances of a stage to those that compute what they read of the stage itself; None if it does not."""
    state, depth = placement.state, len(placement.around)
    pairs: isl.Map | None = None
    for read in state.computation.reads:
        if read.tensor in state.tensors:
            writes = cells_written(placement, read.tensor.name, depth)
            found = cells_read(placement, read, depth).apply_range(writes.reverse())
            pairs = found if pairs is None else pairs.union(found)
    return pairs


def sequential_dims_of(stage: StageView) -> frozenset[int]:
    """The dimensions along which a recurrence computes one value at a time, so that they cannot be vector lanes."""
    axes = stage.state.computation.axes
    if _is_computed_at(stage):
        placement = place_stages(stage.schedule)[stage]
        return frozenset(n for n, each in enumerate(placement.extent) if bound_range(each, placement.box)[1] <= 1)
    leaves = set(stage.state.leaves[: loops_outside_blocks(stage)])
    for relation in reversed(stage.state.relations):
        if leaves & set(created_loops(relation)):
            leaves |= set(replaced_loops(relation))
    roots = {root.source for root in stage.state.roots if root in leaves}
    return frozenset(n for n, axis in enumerate(axes) if axis in roots and axis.extent > 1)


def loops_outside_blocks(stage: StageView) -> int:
    """How many loops of a stage must stay outside its blocks: others run in them, or they carry its recurrence."""
    location = stage.state.attachment
    locations = [each.state.attachment for each in stage.schedule.stages]
    inside = [
        stage.state.leaves.index(each.axis) + 1
        for each in locations
        if each is not None and stage.schedule.at(each) is stage
    ]
    own = len(location.loops) if location is not None else 0
    placement = place_stages(stage.schedule)[stage]
    outside = set(placement.loops.variables[: carried_loops(placement)])
    carried = [n + 1 for n, leaf in enumerate(stage.state.leaves) if outside & set(placement.loops.of_leaf[leaf])]
    return max([own, *inside, *carried], default=0)
