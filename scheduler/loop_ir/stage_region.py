"""The region of a stage: its enclosing loops, the box that it computes in them, and its own loops."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import islpy as isl

from lathe.frontend.arith.conditions import bounds_of
from lathe.frontend.arith.linear import Bound, Extremum, Linear, LoopVariable, add, bound_range, scale
from lathe.frontend.arith.loop_bounds import Interval, condition_bound
from lathe.frontend.expr.nodes import Axis
from lathe.scheduler.loop_ir.sliding_windows import Window, buffer_shape
from lathe.scheduler.loop_ir.stage_loops import StageLoops
from lathe.scheduler.rewriting.undef import defined_where
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import ACROSS_CORES, StageState


@dataclass(frozen=True)
class ExactBox:
    """A box with piecewise bounds, as isl objects: the least index per dimension, and a map from loops to cells."""

    lows: "list[isl.PwAff]"
    cells: "isl.Map"


@dataclass(frozen=True, eq=False)
class StageRegion:
    """The loops that a stage is computed in, and the box of its domain that is computed there.

    ``prefix``: the loops of enclosing stages, outermost first. ``low``, ``extent``: the box of data axes, as bounds
    over the prefix. ``box``: the range of every variable of prefix and own loops. ``window``: what a reuse buffer
    holds; ``low`` and ``extent`` are then the part of it that was not fetched before.
    """

    stage: StageView
    prefix: list[LoopVariable]
    low: list[Bound]
    extent: list[Bound]
    loops: StageLoops
    box: dict[LoopVariable, tuple[int, int]]
    window: Window | None = None
    pieces: "list[list[Linear]] | None" = None
    """Groups of bounds: an instance is computed only if all bounds of one group are >= 0. None: no such condition."""
    exact: ExactBox | None = None  # the same box as ``low`` and ``extent`` in iterations that are executed
    cached_instances: "list[isl.Map]" = field(default_factory=list, repr=False)  # at most one map, by ``instances``

    @property
    def buffer_shape(self) -> tuple[int, ...]:
        """The largest box that the stage's buffer holds, without dimensions of extent 1 unless it has no other."""
        extents = tuple(bound_range(extent, self.box)[1] for extent in self.extent)
        return buffer_shape(self.window.shape if self.window is not None else extents)

    @property
    def around(self) -> list[LoopVariable]:
        """All loops that the stage runs in, outermost first, its own included."""
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
        """The number of virtual threads of each of its own loops; those of a fused loop are on its innermost part."""
        counts: dict[LoopVariable, int] = {}
        for leaf, count in self.state.threads.items():
            variables = self.loops.of_leaf[leaf]
            counts[next((v for v in reversed(variables) if v.extent > 1), variables[-1])] = count
        return counts

    @property
    def cases(self) -> "list[StageRegion]":
        """One region for each piece of a piecewise affine schedule; the region itself if its loops have one form."""
        if not self.loops.others:
            return [self]
        forms = [(self.loops.local, self.loops.constraints), *self.loops.others]
        loops = [replace(self.loops, local=local, constraints=constraints, others=[]) for local, constraints in forms]
        return [replace(self, loops=each, cached_instances=[]) for each in loops]

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
        """The bounds that must be >= 0 for an instance to be in the domain, without those that always are."""
        bounds: list[Bound] = list(self.loops.constraints)
        extents = iter(self.extent)
        for root in self.state.roots:
            assert root.source is not None
            extent: Bound = next(extents) if root.kind == "data" else Linear(root.source.extent)
            bounds.append(add(add(extent, Linear(-1)), self.loops.local[root] * -1))
        bounds += self.domain_bounds()
        roots = self.roots()
        for body in self.state.computation.bodies:
            for condition in defined_where(body):
                bound = condition_bound(condition, roots)
                assert bound is not None, f"{self.stage.name} is defined only where {condition}, which is not linear"
                bounds.append(bound)
        unique: dict[Bound, None] = dict.fromkeys(each for each in bounds if bound_range(each, self.box)[0] < 0)
        return list(unique)

    def domain_bounds(self) -> list[Bound]:
        """The bounds that must be >= 0 for the computation's domain predicate to hold; none for a box."""
        if self.state.computation.where is None:
            return []
        bounds = bounds_of(self.state.computation, self.roots(), self.box)
        return [each for each in bounds if bound_range(each, self.box)[0] < 0]

    def certain_constraints(self) -> list[Bound]:
        """The constraints that all cases have in common."""
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
            if self.loops.local[root].range(self.box)[0] < 0:  # in warm-up, or where a fused loop is longer
                low = Extremum("max", (value, first))
            if bound_range(add(last, scale(value, -1)), self.box)[0] < 0:
                high = Extremum("min", (value, last))
            result[root.source] = (low, high)
        return result


def shared_depth(one: Sequence[object], other: Sequence[object]) -> int:
    """How many outermost loops two chunks or stages, given by their enclosing loops, have in common."""
    depth = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine is not theirs:
            break
        depth += 1
    return depth
