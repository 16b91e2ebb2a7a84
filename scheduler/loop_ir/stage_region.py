"""A stage in its place: the loops around it, the box it computes there, its own loops."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import islpy as isl

from lathe.frontend.arith.conditions import bounds_of
from lathe.frontend.arith.linear import Bound, Extremum, Linear, LoopVariable, add, bound_range, scale
from lathe.frontend.arith.loop_bounds import Interval, condition_bound
from lathe.frontend.expr.nodes import Axis
from lathe.scheduler.loop_ir.sliding_windows import Window, buffer_shape
from lathe.scheduler.loop_ir.stage_loops import StageLoops
from lathe.scheduler.rewriting.undef import conditions_of
from lathe.scheduler.schedule_ir.schedule import StageView
from lathe.scheduler.schedule_ir.stage import ACROSS_CORES, StageState


@dataclass(frozen=True)
class ExactBox:
    """A box whose bounds are choices, as isl has it: the least index in each dimension, and the cells, by loops."""

    lows: "list[isl.PwAff]"
    cells: "isl.Map"


@dataclass(frozen=True, eq=False)
class StageRegion:
    """Where a stage is computed and what of it.

    ``prefix`` are the loops of other stages around it, outermost first; ``low`` and ``extent`` the box of data axes
    that it computes there, as bounds over the prefix; ``box`` the range of every variable of prefix and own loops.
    ``window`` is what a reuse buffer holds there: the box is what the window lacks.
    """

    stage: StageView
    prefix: list[LoopVariable]
    low: list[Bound]
    extent: list[Bound]
    loops: StageLoops
    box: dict[LoopVariable, tuple[int, int]]
    window: Window | None = None
    pieces: "list[list[Linear]] | None" = None
    """Conditions (each must be >= 0) of which one group must hold in addition; None for none at all."""
    exact: ExactBox | None = None  # the same box as ``low`` and ``extent`` in iterations that are carried out
    found: "list[isl.Map]" = field(default_factory=list, repr=False)  # what ``instances`` has found, or shall say

    @property
    def buffer_shape(self) -> tuple[int, ...]:
        """The largest box that the stage has at a time, without dimensions of extent 1 unless it has no other."""
        extents = tuple(bound_range(extent, self.box)[1] for extent in self.extent)
        return buffer_shape(self.window.shape if self.window is not None else extents)

    @property
    def around(self) -> list[LoopVariable]:
        """All loops that the stage runs in, its own included."""
        return [*self.prefix, *self.loops.variables]

    @property
    def state(self) -> StageState:
        return self.stage.state

    @property
    def across_cores(self) -> set[LoopVariable]:
        """Its own loops whose iterations may run on different cores."""
        marks = self.state.annotations
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
    def cases(self) -> "list[StageRegion]":
        """The same placement for each of the pieces of a map that gives its loops; itself, where there is none."""
        if not self.loops.others:
            return [self]
        forms = [(self.loops.local, self.loops.constraints), *self.loops.others]
        loops = [replace(self.loops, local=local, constraints=found, others=[]) for local, found in forms]
        return [replace(self, loops=each, found=[]) for each in loops]

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


def shared_depth(one: Sequence[object], other: Sequence[object]) -> int:
    """How many of the loops around one chunk or stage, outermost first, are around another, too."""
    depth = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine is not theirs:
            break
        depth += 1
    return depth
