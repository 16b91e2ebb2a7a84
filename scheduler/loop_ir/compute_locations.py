"""Resolves compute locations: the enclosing loops, the box and the own loops of every stage of a schedule."""

from dataclasses import dataclass, replace

from lathe.frontend.arith.linear import Bound, Linear, LoopVariable, bound_range
from lathe.frontend.arith.loop_bounds import Interval
from lathe.frontend.expr.nodes import ReadAccess
from lathe.scheduler.loop_ir.bounds_inference import extent_of, hull, read_box
from lathe.scheduler.loop_ir.exact_regions import pieces_of
from lathe.scheduler.loop_ir.sliding_windows import Window, sliding_window
from lathe.scheduler.loop_ir.stage_loops import FusedLoop, StageLoops, leaf_extents, stage_loops
from lathe.scheduler.loop_ir.stage_region import ExactBox, StageRegion
from lathe.scheduler.loop_ir.tight_bounds import smallest_box
from lathe.scheduler.loop_ir.warmup_stages import runs_in_warmup, sibling_consumers
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import StageState, same_loop_nest


@dataclass(frozen=True)
class _Regions:
    """The regions of all stages, the stage states that they follow from, and the regions that each depends on."""

    states: dict[StageView, StageState]
    placed: dict[StageView, StageRegion]
    inputs: dict[StageView, list[StageRegion]]
    independent: bool
    """Whether a region depends on these only: no loops are fused, and there are no reuse buffers."""


def place_stages(schedule: ScheduleView) -> dict[StageView, StageRegion]:
    """The region of every stage, consumers first (a stage's box follows from the boxes of its consumers).

    The result is cached with the schedule until a command changes loops or compute locations; then only the regions
    that depend on the change are computed again.
    """
    states = {stage: stage.state for stage in schedule.stages}
    cached: _Regions | None = schedule.derived.get("placed")
    if (
        cached is not None
        and list(cached.states) == list(states)
        and all(map(same_loop_nest, states.values(), cached.states.values()))
    ):
        return cached.placed
    result = schedule.derived["placed"] = _place(schedule, states, cached)
    return result.placed


def loop_extent(stage: StageView, loop: LoopAxis) -> int:
    """The number of iterations of a loop of a stage."""
    return place_stages(stage.schedule)[stage].loops.extents[loop]


def _place(schedule: ScheduleView, states: dict[StageView, StageState], cached: _Regions | None) -> _Regions:
    independent = all(
        state.reuse is None and (state.attachment is None or not state.attachment.loops) for state in states.values()
    )
    result = _Regions(states, {}, {}, independent)
    before = cached if cached is not None and cached.independent and independent else None
    longer = longest_fused(schedule)
    for stage in reversed(schedule.stages):
        inputs = result.inputs[stage] = _inputs(schedule, stage, result.placed) if independent else []
        if before is not None and _is_valid(stage, inputs, before):
            result.placed[stage] = before.placed[stage]
        else:
            result.placed[stage] = _placement(schedule, stage, result.placed, longer.get(stage))
    return result


def _inputs(schedule: ScheduleView, stage: StageView, placed: dict[StageView, StageRegion]) -> list[StageRegion]:
    """The regions that a stage's region depends on: those of its enclosing stage and of its consumers."""
    location = stage.state.attachment
    if location is None:
        return []
    consumers = dict.fromkeys(consumer for tensor in stage.state.tensors for consumer in schedule.consumers(tensor))
    return [placed[schedule.at(location)], *(placed[consumer] for consumer in consumers)]


def _is_valid(stage: StageView, inputs: list[StageRegion], before: _Regions) -> bool:
    """Whether the cached region of a stage is still valid."""
    location, state = stage.state.attachment, before.states.get(stage)
    if state is None or not same_loop_nest(stage.state, state) or (location is not None and location.region != "box"):
        return False
    return before.inputs[stage] == inputs  # regions compare by identity


def _placement(
    schedule: ScheduleView, stage: StageView, placed: dict[StageView, StageRegion], longer: dict[LoopAxis, int] | None
) -> StageRegion:
    state = stage.state
    attachment = state.attachment
    window: Window | None = None
    exact: ExactBox | None = None
    prefix: list[LoopVariable] = []
    box: dict[LoopVariable, tuple[int, int]] = {}
    if attachment is not None:
        anchor = placed[schedule.at(attachment)]
        around = [*anchor.prefix, *anchor.loops.variables]
        level = max(around.index(variable) for variable in anchor.loops.of_leaf[attachment.axis])
        prefix = around[: level + 1]
        ranges_there = {**anchor.box, **{v: (first, v.extent - 1) for v, first in anchor.loops.first.items()}}
        box = {variable: ranges_there[variable] for variable in prefix}
        if runs_in_warmup(schedule, stage):
            box[prefix[-1]] = (0, prefix[-1].extent - 1)
    if attachment is None or attachment.loops:
        low: list[Bound] = [Linear(0) for _ in state.computation.axes]
        extent: list[Bound] = [Linear(axis.extent) for axis in state.computation.axes]
    else:
        needed, ranges, inside = _needed_box(schedule, stage, placed, box)
        if state.reuse is not None:
            filling = any(runs_in_warmup(schedule, each) for each in sibling_consumers(schedule, stage))
            first = 0 if filling else placed[schedule.at(attachment)].loops.first.get(prefix[-1], 0)
            needed, window = sliding_window(stage.name, needed, prefix[-1], ranges, first)
        low, extent = [start for start, _ in needed], [extent_of(interval, ranges) for interval in needed]
        if attachment.region == "box" and state.reuse is None and inside:
            here = StageRegion(stage, prefix, [], [], StageLoops([], {}, {}, [], {}), box)
            low, extent, exact = smallest_box(here, inside, needed, placed)
        if attachment.region != "box":  # pieces select cells of a box with linear bounds
            sizes = [axis.extent for axis in state.computation.axes]
            plain = [isinstance(each, Linear) for each in low]
            extent = [
                Linear(bound_range(each, box)[1] if linear else size)
                for each, linear, size in zip(extent, plain, sizes, strict=True)
            ]
            low = [each if linear else Linear(0) for each, linear in zip(low, plain, strict=True)]
    nominal: dict[LoopAxis, int] = {}
    extents = iter(extent)
    for root in state.roots:
        assert root.source is not None
        size = bound_range(next(extents), box)[1] if root.kind == "data" else root.source.extent
        nominal[root] = max(size, 1)  # an empty box has a loop, too, which its constraint keeps from running
    shared: list[FusedLoop] = []
    if attachment is not None and attachment.loops:
        anchor = placed[schedule.at(attachment)]
        loops_there = schedule.at(attachment).state.leaves[: len(attachment.loops)]
        shared = [(anchor.loops.values[leaf], anchor.loops.of_leaf[leaf]) for leaf in loops_there]
    loops = stage_loops(state, nominal, shared, longer)
    whole = {**box, **{variable: (0, variable.extent - 1) for variable in loops.variables}}
    region = StageRegion(stage, prefix, low, extent, loops, whole, window, exact=exact)
    if attachment is not None and attachment.region != "box":
        region = replace(region, pieces=pieces_of(region, {**placed, stage: region}), cached_instances=[])
    return region


def comes_first(
    schedule: ScheduleView, stage: StageView, reader: StageView, placed: dict[StageView, StageRegion], depth: int
) -> bool:
    """Whether, in one iteration of the ``depth`` loops around both, ``stage`` is computed before ``reader``."""

    def top(inner: StageView) -> StageView | None:
        """The stage at this depth in whose loops a stage is computed; None if it is in the enclosing stage itself."""
        enclosing: StageView | None = inner
        while enclosing is not None and len(placed[enclosing].prefix) != depth:
            enclosing = schedule.at(enclosing.state.attachment) if enclosing.state.attachment else None
        return enclosing

    producer, consumer = top(stage), top(reader)
    if producer is None or consumer is None:
        return consumer is None
    return schedule.stages.index(producer) < schedule.stages.index(consumer)


def longest_fused(schedule: ScheduleView) -> dict[StageView, dict[LoopAxis, int]]:
    """For each stage with fused loops: the extent of the longest loop fused with each of its own."""
    longest: dict[StageView, dict[LoopAxis, int]] = {}
    for stage in schedule.stages:  # a stage comes before the one that it is fused with
        attachment = stage.state.attachment
        if attachment is None or not attachment.loops:
            continue
        roots = {root: root.source.extent for root in stage.state.roots if root.source is not None}
        own = {**leaf_extents(stage.state, roots)}
        for loop, extent in longest.get(stage, {}).items():
            own[loop] = max(own[loop], extent)
        anchor = longest.setdefault(schedule.at(attachment), {})
        for loop, mine in zip(schedule.at(attachment).state.leaves, attachment.loops, strict=False):
            anchor[loop] = max(anchor.get(loop, 0), own[mine])
    return longest


def _needed_box(
    schedule: ScheduleView,
    stage: StageView,
    placed: dict[StageView, StageRegion],
    prefix: dict[LoopVariable, tuple[int, int]],
) -> tuple[list[Interval], dict[LoopVariable, tuple[int, int]], "list[tuple[StageRegion, list[ReadAccess]]]"]:
    """The box that consumers in the same loops need (or all consumers, if none is there, or the whole tensor, if a
    subschedule has none); the ranges of all variables; and the consumers in the same loops, with their reads."""
    boxes: list[list[Interval]] = []
    other_boxes: list[list[Interval]] = []
    around, visible = list(prefix), set(prefix)
    merged: dict[LoopVariable, tuple[int, int]] = {}
    inside: list[tuple[StageRegion, list[ReadAccess]]] = []
    tensors = stage.state.tensors
    several = {consumer for tensor in tensors for consumer in schedule.consumers(tensor)} if len(tensors) > 1 else set()
    in_order = [each for each in schedule.stages if each in several] if several else schedule.consumers(tensors[0])
    for consumer in in_order:
        reads = [read for read in consumer.state.computation.reads if read.tensor in tensors]
        placement = placed[consumer]
        merged.update(placement.box)
        variables = [*placement.prefix, *placement.loops.variables]
        needed = boxes if variables[: len(around)] == around else other_boxes
        if needed is boxes:
            inside.append((placement, reads))
        for axes in [case.intervals() for case in placement.cases]:
            needed.extend(read_box(read, axes, visible, {**placement.box, **prefix}) for read in reads)
    merged.update(prefix)
    whole: list[Interval] = [(Linear(0), Linear(size - 1)) for size in tensors[0].shape]
    return hull(boxes or other_boxes or [whole], merged), merged, inside
