"""Redundant computation: how many instances of a stage a partitioned nest executes, and how many of them are distinct.

A box has as many instances as the product of its extents, less those that a mask excludes. The number of distinct
points follows from the same boxes (``distinct_points.py``).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Computation, evaluate
from lathe.frontend.arith.conditions import instance_condition, over_approximation
from lathe.frontend.arith.linear import LoopVariable
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, axes_of
from lathe.scheduler.inspect.distinct_points import CoveredBox, Weight, connected, covered_points
from lathe.scheduler.loop_ir.nodes import ChunkNode
from lathe.scheduler.loop_ir.timestamps import values_on
from lathe.scheduler.rewriting.undef import conjuncts, defined_where
from lathe.scheduler.schedule_ir.schedule_state import StageView

Ints = NDArray[np.int64]
Ranges = Sequence[tuple[LoopVariable, int, int]]


@dataclass(frozen=True)
class StageCount:
    """Instances of a stage: ``executed`` in total, of which ``distinct`` are different and ``redundant`` repeated.

    An instance is a point of the computation's domain, reduction axes included, without the points that ``where`` of
    the computation or reduction excludes. If a condition depends on data, the counts are upper bounds, not ``exact``.
    """

    executed: int
    distinct: int
    exact: bool = True

    @property
    def redundant(self) -> int:
        return self.executed - self.distinct


class Coverage:
    """The instances of a stage, summed over the boxes of a nest."""

    def __init__(self, stage: StageView) -> None:
        self.computation = stage.state.computation
        self.executed = 0
        self.mask, self.exact = over_approximation(instance_condition(self.computation))
        self.terms = [] if self.mask is None else conjuncts(self.mask)
        # A root-level stage computes each point once: only stages attached to loops may recompute any.
        attachment = stage.state.attachment
        counted = attachment is not None and not attachment.loops
        self.boxes: list[CoveredBox] | None = [] if counted else None

    def add(self, chunk: ChunkNode, around: Ranges) -> None:
        """Count a box, in all iterations of its enclosing loops."""
        ranges = {variable: (first, last) for variable, first, last in around}
        ranges.update({variable: (0, extent - 1) for variable, extent in chunk.loops})
        if chunk.role != "init":
            self.executed += self._instances(chunk, ranges)
        if self.boxes is not None and chunk.role != "update":
            self.boxes.append(CoveredBox(chunk.roots, ranges))

    def _instances(self, chunk: ChunkNode, ranges: Mapping[LoopVariable, tuple[int, int]]) -> int:
        """The number of points of a box at which the mask holds: a product over loops that no term of it relates."""
        count = prod(last - first + 1 for first, last in ranges.values())
        tied = [[v for axis in axes_of(term) for v in chunk.roots[axis].variables()] for term in self.terms]
        for variables in connected([*dict.fromkeys(v for some in tied for v in some)], tied):
            terms = [term for term, some in zip(self.terms, tied, strict=True) if set(some) & set(variables)]
            grids = _grids([(v, *ranges[v]) for v in variables])
            points = {axis: values_on(chunk.roots[axis], grids) for axis in axes_of(*terms)}
            shape = [ranges[v][1] - ranges[v][0] + 1 for v in variables]
            count = count // prod(shape) * int(np.count_nonzero(_hold(terms, points, shape)))
        constant = [term for term, some in zip(self.terms, tied, strict=True) if not some]
        points = {axis: values_on(chunk.roots[axis], {}) for axis in axes_of(*constant)}
        return count * int(_hold(constant, points, ()))

    def result(self) -> StageCount:
        if self.boxes is None:
            return StageCount(self.executed, self.executed, self.exact)
        weights = [*_weights(self.computation, self.terms)]
        return StageCount(self.executed, covered_points(self.computation.axes, self.boxes, weights), self.exact)


def _weights(computation: Computation, mask: Sequence[Expr]) -> Iterator[Weight]:
    """The number of instances of each element of a computation: its updates, without those that conditions exclude."""
    axes, reductions = computation.axes, computation.reduce_axes
    terms = list(mask)
    if reductions:  # without reductions, no box contains excluded elements
        terms += [term for body in computation.bodies for term in defined_where(body)]
    mentioned = [axes_of(term) for term in terms]
    for group in connected([*axes, *reductions], mentioned):
        own = tuple(axis for axis in group if axis in axes)
        related = [term for term, used in zip(terms, mentioned, strict=True) if set(used) & set(group)]
        if not related:
            if not own:
                yield Weight((), np.asarray(prod(axis.extent for axis in group), np.int64))
            continue
        order = (*own, *(axis for axis in group if axis not in own))
        grids = np.meshgrid(*(np.arange(axis.start, axis.stop) for axis in order), indexing="ij", sparse=True)
        mask_values = _hold(related, dict(zip(order, grids, strict=True)), [axis.extent for axis in order])
        yield Weight(own, mask_values.sum(axis=tuple(range(len(own), len(order))), dtype=np.int64))
    yield Weight((), np.asarray(int(_hold([term for term in terms if not axes_of(term)], {}, ())), np.int64))


def _hold(terms: Sequence[Expr], points: Mapping[Axis, Ints], shape: Sequence[int]) -> NDArray[np.bool_]:
    """The points at which all conditions hold."""
    holds: NDArray[np.bool_] = np.ones(shape, np.bool_)
    for term in terms:
        holds &= np.broadcast_to(evaluate(term, points), shape)
    return holds


def _grids(ranges: Ranges) -> dict[LoopVariable, Ints]:
    """The values of loops as arrays that broadcast together, each along a dimension of its own."""
    grids: dict[LoopVariable, Ints] = {}
    for position, (variable, first, last) in enumerate(ranges):
        form = [-1 if n == position else 1 for n in range(len(ranges))]
        grids[variable] = np.arange(first, last + 1).reshape(form)
    return grids
