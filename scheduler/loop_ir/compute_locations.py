"""Every stage of a schedule in its place: the loops around it, the box it computes there, its own loops."""

from dataclasses import dataclass, replace

from lathe.frontend.arith.linear import Bound, Linear, LoopVariable, bound_range
from lathe.frontend.arith.loop_bounds import Interval
from lathe.frontend.expr.nodes import ReadAccess
from lathe.scheduler.loop_ir.bounds_inference import extent_of, hull, read_box
from lathe.scheduler.loop_ir.exact_regions import pieces_of
from lathe.scheduler.loop_ir.sliding_windows import Window, kept_window
from lathe.scheduler.loop_ir.stage_loops import SharedLoop, StageLoops, leaf_extents, stage_loops
from lathe.scheduler.loop_ir.stage_region import ExactBox, StageRegion
from lathe.scheduler.loop_ir.tight_bounds import smallest_box
from lathe.scheduler.loop_ir.warmup_stages import fills, readers_beside
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import StageState, placed_alike


@dataclass(frozen=True)
class _Answer:
    """Placements, the states that they are of, and the placements that each follows from."""

    states: dict[StageView, StageState]
    placed: dict[StageView, StageRegion]
    inputs: dict[StageView, list[StageRegion]]
    alone: bool
    """Whether a placement follows from these only: no stages share loops, and no reuse buffer fills."""


def place_stages(schedule: ScheduleView) -> dict[StageView, StageRegion]:
    """The placement of every stage, consumers first (a stage's box follows from the boxes of its consumers).

    The last answer is kept with the schedule and holds until a command changes loops or places; of the next one only
    those are new that follow from what has changed.
    """
    states = {stage: stage.state for stage in schedule.stages}
    kept: _Answer | None = schedule.derived.get("placed")
    if (
        kept is not None
        and list(kept.states) == list(states)
        and all(map(placed_alike, states.values(), kept.states.values()))
    ):
        return kept.placed
    found = schedule.derived["placed"] = _place(schedule, states, kept)
    return found.placed


def loop_extent(stage: StageView, loop: LoopAxis) -> int:
    """The number of iterations of a present loop of a stage."""
    return place_stages(stage.schedule)[stage].loops.extents[loop]


def _place(schedule: ScheduleView, states: dict[StageView, StageState], kept: _Answer | None) -> _Answer:
    alone = all(
        state.reuse is None and (state.attachment is None or not state.attachment.loops) for state in states.values()
    )
    found = _Answer(states, {}, {}, alone)
    before = kept if kept is not None and kept.alone and alone else None
    longer = longest_together(schedule)
    for stage in reversed(schedule.stages):
        inputs = found.inputs[stage] = _inputs(schedule, stage, found.placed) if alone else []
        if before is not None and _stays(stage, inputs, before):
            found.placed[stage] = before.placed[stage]
        else:
            found.placed[stage] = _placement(schedule, stage, found.placed, longer.get(stage))
    return found


def _inputs(schedule: ScheduleView, stage: StageView, placed: dict[StageView, StageRegion]) -> list[StageRegion]:
    """The placements that a stage's follows from: of the one in whose loop it is, and of its readers."""
    place = stage.state.attachment
    if place is None:
        return []
    readers = dict.fromkeys(reader for tensor in stage.state.tensors for reader in schedule.readers(tensor))
    return [placed[schedule.at(place)], *(placed[reader] for reader in readers)]


def _stays(stage: StageView, inputs: list[StageRegion], before: _Answer) -> bool:
    """Whether a stage is placed as it was before."""
    place, state = stage.state.attachment, before.states.get(stage)
    if state is None or not placed_alike(stage.state, state) or (place is not None and place.region != "box"):
        return False
    return before.inputs[stage] == inputs  # placements are equal only to themselves


def _placement(
    schedule: ScheduleView,
    stage: StageView,
    placed: dict[StageView, StageRegion],
    longer: dict[LoopAxis, int] | None,
) -> StageRegion:
    state = stage.state
    attachment = state.attachment
    window: Window | None = None
    exact: ExactBox | None = None
    prefix: list[LoopVariable] = []
    box: dict[LoopVariable, tuple[int, int]] = {}
    if attachment is not None:
        host = placed[schedule.at(attachment)]
        around = [*host.prefix, *host.loops.variables]
        level = max(around.index(variable) for variable in host.loops.of_leaf[attachment.axis])
        prefix = around[: level + 1]
        begun = {**host.box, **{v: (first, v.extent - 1) for v, first in host.loops.first.items()}}
        box = {variable: begun[variable] for variable in prefix}
        if fills(schedule, stage):
            box[prefix[-1]] = (0, prefix[-1].extent - 1)
    if attachment is None or attachment.loops:
        low: list[Bound] = [Linear(0) for _ in state.computation.axes]
        extent: list[Bound] = [Linear(axis.extent) for axis in state.computation.axes]
    else:
        needed, ranges, inside = _needed(schedule, stage, placed, box)
        if state.reuse is not None:
            filling = any(fills(schedule, each) for each in readers_beside(schedule, stage))
            first = 0 if filling else placed[schedule.at(attachment)].loops.first.get(prefix[-1], 0)
            needed, window = kept_window(stage.name, needed, prefix[-1], ranges, first)
        low, extent = [start for start, _ in needed], [extent_of(interval, ranges) for interval in needed]
        if attachment.region == "box" and state.reuse is None and inside:
            here = StageRegion(stage, prefix, [], [], StageLoops([], {}, {}, [], {}), box)
            low, extent, exact = smallest_box(here, inside, needed, placed)
        if attachment.region != "box":  # the pieces say what of a box without choices
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
        nominal[root] = max(size, 1)  # nothing may be needed at all: a loop that its condition keeps empty
    shared: list[SharedLoop] = []
    if attachment is not None and attachment.loops:
        host = placed[schedule.at(attachment)]
        loops_there = schedule.at(attachment).state.leaves[: len(attachment.loops)]
        shared = [(host.loops.values[leaf], host.loops.of_leaf[leaf]) for leaf in loops_there]
    loops = stage_loops(state, nominal, shared, longer)
    whole = {**box, **{variable: (0, variable.extent - 1) for variable in loops.variables}}
    found = StageRegion(stage, prefix, low, extent, loops, whole, window, exact=exact)
    if attachment is not None and attachment.region != "box":
        found = replace(found, pieces=pieces_of(found, {**placed, stage: found}), found=[])
    return found


def comes_first(
    schedule: ScheduleView, stage: StageView, reader: StageView, placed: dict[StageView, StageRegion], depth: int
) -> bool:
    """Whether, in one iteration of the loops around both, ``stage`` is computed before ``reader``."""

    def top(inner: StageView) -> StageView | None:
        """What of the loop body it is computed in: a stage computed there, or None for the loops of the host."""
        current: StageView | None = inner
        while current is not None and len(placed[current].prefix) != depth:
            current = schedule.at(current.state.attachment) if current.state.attachment else None
        return current

    producer, consumer = top(stage), top(reader)
    if producer is None or consumer is None:
        return consumer is None
    return schedule.stages.index(producer) < schedule.stages.index(consumer)


def longest_together(schedule: ScheduleView) -> dict[StageView, dict[LoopAxis, int]]:
    """For each stage whose loops others run together with, the iterations of the longest of them."""
    found: dict[StageView, dict[LoopAxis, int]] = {}
    for stage in schedule.stages:  # a stage comes before the one whose loops it shares
        attachment = stage.state.attachment
        if attachment is None or not attachment.loops:
            continue
        roots = {root: root.source.extent for root in stage.state.roots if root.source is not None}
        own = {**leaf_extents(stage.state, roots)}
        for loop, extent in found.get(stage, {}).items():
            own[loop] = max(own[loop], extent)
        host = found.setdefault(schedule.at(attachment), {})
        for loop, mine in zip(schedule.at(attachment).state.leaves, attachment.loops, strict=False):
            host[loop] = max(host.get(loop, 0), own[mine])
    return found


def _needed(
    schedule: ScheduleView,
    stage: StageView,
    placed: dict[StageView, StageRegion],
    prefix: dict[LoopVariable, tuple[int, int]],
) -> tuple[list[Interval], dict[LoopVariable, tuple[int, int]], "list[tuple[StageRegion, list[ReadAccess]]]"]:
    """The box that the readers in the same loops need (all readers, if none is there); ranges of all variables.

    And the readers in the same loops, with their reads.
    """
    boxes: list[list[Interval]] = []
    elsewhere: list[list[Interval]] = []
    around, visible = list(prefix), set(prefix)
    merged: dict[LoopVariable, tuple[int, int]] = {}
    inside: list[tuple[StageRegion, list[ReadAccess]]] = []
    tensors = stage.state.tensors
    several = {reader for tensor in tensors for reader in schedule.readers(tensor)} if len(tensors) > 1 else set()
    in_order = [each for each in schedule.stages if each in several] if several else schedule.readers(tensors[0])
    for reader in in_order:
        reads = [read for read in reader.state.computation.reads if read.tensor in tensors]
        placement = placed[reader]
        merged.update(placement.box)
        variables = [*placement.prefix, *placement.loops.variables]
        found = boxes if variables[: len(around)] == around else elsewhere
        if found is boxes:
            inside.append((placement, reads))
        for axes in [case.intervals() for case in placement.cases]:
            found.extend(read_box(read, axes, visible, {**placement.box, **prefix}) for read in reads)
    merged.update(prefix)
    return hull(boxes or elsewhere, merged), merged, inside
