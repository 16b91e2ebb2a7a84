"""Every stage of a schedule in its place: the loops around it, the box it computes there, its own loops."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import islpy as isl

from lathe.frontend.accesses import ReadAccess
from lathe.frontend.expressions import Axis
from lathe.frontend.indices.conditions import bounds_of
from lathe.frontend.indices.linear import Bound, Extremum, Linear, LoopVariable, add, bound_range, scale
from lathe.scheduler.algorithm.undefined import conditions_of
from lathe.scheduler.nest.read_boxes import Interval, extent_of, hull, read_box
from lathe.scheduler.nest.stage_loops import SharedLoop, StageLoops, leaf_extents, stage_loops
from lathe.scheduler.nest.windows import Window, buffer_shape, kept_window
from lathe.scheduler.state.stage import ACROSS_CORES, LoopAxis, StageState, placed_alike, same_place
from lathe.scheduler.target.index_in_loops import condition_bound

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule
    from lathe.scheduler.stage import Stage


@dataclass(frozen=True)
class ExactBox:
    """A box whose bounds are choices, as isl has it: the least index in each dimension, and the cells, by loops."""

    lows: "list[isl.PwAff]"
    cells: "isl.Map"


@dataclass
class Placement:
    """Where a stage is computed and what of it.

    ``prefix`` are the loops of other stages around it, outermost first; ``low`` and ``extent`` the box of data axes
    that it computes there, as bounds over the prefix; ``box`` the range of every variable of prefix and own loops.
    ``window`` is what a reuse buffer holds there: the box is what the window lacks.
    """

    stage: "Stage"
    prefix: list[LoopVariable]
    low: list[Bound]
    extent: list[Bound]
    loops: StageLoops
    box: dict[LoopVariable, tuple[int, int]]
    window: Window | None = None
    pieces: "list[list[Linear]] | None" = None
    """Conditions (each must be >= 0) of which one group must hold in addition; None for none at all."""
    exact: ExactBox | None = None  # the same box as ``low`` and ``extent`` in iterations that are carried out
    executed: "isl.Map | None" = None  # what ``polyhedra.instances`` has found

    @property
    def buffer_shape(self) -> tuple[int, ...]:
        """The largest box that the stage has at a time, without dimensions of extent 1 unless it has no other."""
        extents = tuple(bound_range(extent, self.box)[1] for extent in self.extent)
        return buffer_shape(self.window.shape if self.window is not None else extents)

    @property
    def state(self) -> StageState:
        return self.stage.state

    @property
    def across_cores(self) -> set[LoopVariable]:
        """Its own loops whose iterations may run on different cores."""
        marks = self.state.marks
        return {v for leaf, mark in marks.items() if mark in ACROSS_CORES for v in self.loops.of_leaf.get(leaf, ())}

    @property
    def threads(self) -> dict[LoopVariable, int]:
        """How many iterations of its own loops are carried out together; of a fused one, of its innermost part."""
        found: dict[LoopVariable, int] = {}
        for leaf, count in self.state.threads.items():
            variables = self.loops.of_leaf[leaf]
            found[next((v for v in reversed(variables) if v.extent > 1), variables[-1])] = count
        return found

    @property
    def cases(self) -> "list[Placement]":
        """The same placement for each of the pieces of a map that gives its loops; itself, where there is none."""
        if not self.loops.others:
            return [self]
        forms = [(self.loops.local, self.loops.constraints), *self.loops.others]
        loops = [replace(self.loops, local=local, constraints=found, others=[]) for local, found in forms]
        return [replace(self, loops=each, executed=None) for each in loops]

    def roots(self) -> dict[Axis, Bound]:
        """The value of each axis of the computation, in terms of prefix and own variables."""
        result: dict[Axis, Bound] = {}
        lows = iter(self.low)
        for root in self.state.roots:
            assert root.source is not None
            start: Bound = next(lows) if root.kind == "data" else Linear(root.source.start)
            result[root.source] = add(start, self.loops.local[root])
        return result

    def constraints(self) -> list[Bound]:
        """What must be >= 0 for an instance to be in the domain, without what always holds."""
        found: list[Bound] = list(self.loops.constraints)
        extents = iter(self.extent)
        for root in self.state.roots:
            assert root.source is not None
            extent: Bound = next(extents) if root.kind == "data" else Linear(root.source.extent)
            found.append(add(add(extent, Linear(-1)), self.loops.local[root] * -1))
        found += self.domain_bounds()
        roots = self.roots()
        for body in self.state.computation.bodies:
            for condition in conditions_of(body):
                bound = condition_bound(condition, roots)
                assert bound is not None, f"{self.stage.name} is undefined but where {condition}, which is not linear"
                found.append(bound)
        unique: dict[Bound, None] = dict.fromkeys(each for each in found if bound_range(each, self.box)[0] < 0)
        return list(unique)

    def domain_bounds(self) -> list[Bound]:
        """What must be >= 0 for an instance to be in the domain of the computation, where that is no box."""
        if self.state.computation.where is None:
            return []
        found = bounds_of(self.state.computation, self.roots(), self.box)
        return [each for each in found if bound_range(each, self.box)[0] < 0]

    def certain_constraints(self) -> list[Bound]:
        """The constraints that hold for the instances of all cases."""
        first, *others = [case.constraints() for case in self.cases]
        return [each for each in first if all(each in other for other in others)]

    def intervals(self) -> dict[Axis, Interval]:
        """Bounds of each axis over all instances, as bounds over prefix and own variables."""
        result: dict[Axis, Interval] = {}
        values = self.roots()
        lows, extents = iter(self.low), iter(self.extent)
        for root in self.state.roots:
            assert root.source is not None
            value = values[root.source]
            first: Bound = next(lows) if root.kind == "data" else Linear(root.source.start)
            last = add(add(first, next(extents) if root.kind == "data" else Linear(root.source.extent)), Linear(-1))
            low: Bound = value
            high: Bound = value
            if self.loops.local[root].range(self.box)[0] < 0:  # in the lead of a loop, or where another loop goes on
                low = Extremum("max", (value, first))
            if bound_range(add(last, scale(value, -1)), self.box)[0] < 0:
                high = Extremum("min", (value, last))
            result[root.source] = (low, high)
        return result


def place_stages(schedule: "Schedule") -> dict["Stage", Placement]:
    """The placement of every stage, consumers first (a stage's box follows from the boxes of its consumers).

    The last answer is kept with the schedule and holds until a command changes loops or places.
    """
    states = [(stage, stage.state) for stage in schedule.stages]
    if schedule.last_placed is not None:
        before, placed = schedule.last_placed
        if len(before) == len(states) and all(
            one is other and placed_alike(now, then) for (one, now), (other, then) in zip(states, before, strict=True)
        ):
            return placed
    placed = _place(schedule)
    schedule.last_placed = states, placed
    return placed


def _place(schedule: "Schedule") -> dict["Stage", Placement]:
    placed: dict[Stage, Placement] = {}
    longer = longest_together(schedule)
    for stage in reversed(schedule.stages):
        state = stage.state
        attachment = state.attachment
        window: Window | None = None
        exact: ExactBox | None = None
        prefix: list[LoopVariable] = []
        box: dict[LoopVariable, tuple[int, int]] = {}
        if attachment is not None:
            host = placed[attachment.stage]
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
                first = 0 if filling else placed[attachment.stage].loops.first.get(prefix[-1], 0)
                needed, window = kept_window(stage.name, needed, prefix[-1], ranges, first)
            low, extent = [start for start, _ in needed], [extent_of(interval, ranges) for interval in needed]
            if attachment.region == "box" and state.reuse is None and inside:
                from lathe.scheduler.nest.smallest_boxes import smallest_box

                here = Placement(stage, prefix, [], [], StageLoops([], {}, {}, [], {}), box)
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
            host = placed[attachment.stage]
            loops_there = attachment.stage.state.leaves[: len(attachment.loops)]
            shared = [(host.loops.values[leaf], host.loops.of_leaf[leaf]) for leaf in loops_there]
        loops = stage_loops(state, nominal, shared, longer.get(stage))
        whole = {**box, **{variable: (0, variable.extent - 1) for variable in loops.variables}}
        placed[stage] = Placement(stage, prefix, low, extent, loops, whole, window, exact=exact)
        if attachment is not None and attachment.region != "box":
            from lathe.scheduler.nest.exact_pieces import pieces_of

            placed[stage].pieces = pieces_of(placed[stage], placed)
            placed[stage].executed = None
    return placed


def fills(schedule: "Schedule", stage: "Stage") -> bool:
    """Whether a stage is computed in the iterations that fill reuse buffers, too: it is one, or one reads it."""
    seen: set[Stage] = set()
    waiting = [stage]
    while waiting:
        current = waiting.pop()
        if current.state.reuse is not None:
            return True
        seen.add(current)
        waiting += [each for each in readers_beside(schedule, current) if each not in seen]
    return False


def readers_beside(schedule: "Schedule", stage: "Stage") -> "list[Stage]":
    """The stages at the same loop as a stage that read it, or in whose loops one is that does."""
    found: list[Stage] = []
    for tensor in stage.state.tensors:
        for reader in schedule.readers(tensor):
            beside: Stage | None = reader
            while beside is not None and not same_place(beside.state.attachment, stage.state.attachment):
                beside = beside.state.attachment.stage if beside.state.attachment else None
            if beside is not None and beside is not stage:
                found.append(beside)
    return found


def longest_together(schedule: "Schedule") -> "dict[Stage, dict[LoopAxis, int]]":
    """For each stage whose loops others run together with, the iterations of the longest of them."""
    found: dict[Stage, dict[LoopAxis, int]] = {}
    for stage in schedule.stages:  # a stage comes before the one whose loops it shares
        attachment = stage.state.attachment
        if attachment is None or not attachment.loops:
            continue
        roots = {root: root.source.extent for root in stage.state.roots if root.source is not None}
        own = {**leaf_extents(stage.state, roots)}
        for loop, extent in found.get(stage, {}).items():
            own[loop] = max(own[loop], extent)
        host = found.setdefault(attachment.stage, {})
        for loop, mine in zip(attachment.stage.state.leaves, attachment.loops, strict=False):
            host[loop] = max(host.get(loop, 0), own[mine])
    return found


def _needed(
    schedule: "Schedule",
    stage: "Stage",
    placed: dict["Stage", Placement],
    prefix: dict[LoopVariable, tuple[int, int]],
) -> tuple[list[Interval], dict[LoopVariable, tuple[int, int]], "list[tuple[Placement, list[ReadAccess]]]"]:
    """The box that the readers in the same loops need (all readers, if none is there); ranges of all variables.

    And the readers in the same loops, with their reads.
    """
    boxes: list[list[Interval]] = []
    elsewhere: list[list[Interval]] = []
    around, visible = list(prefix), set(prefix)
    merged: dict[LoopVariable, tuple[int, int]] = {}
    inside: list[tuple[Placement, list[ReadAccess]]] = []
    for reader in schedule.stages:
        reads = [read for read in reader.state.computation.reads if read.tensor in stage.state.tensors]
        if not reads:
            continue
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
