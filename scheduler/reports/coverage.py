"""How many instances of a stage the boxes of a partitioned nest have, and how many of them are different.

A box has as many instances as the product of its extents, less those that a mask takes out. How often each point is
computed follows from the same boxes: along axes that share no loop, the counts of a box are products of counts along
each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Computation, evaluate
from lathe.frontend.expressions import Axis, Expr, axes_of
from lathe.frontend.indices.conditions import happens, possible
from lathe.frontend.indices.linear import Linear, LoopVariable
from lathe.scheduler.algorithm.undefined import conditions_of
from lathe.scheduler.nest.nodes import ChunkNode
from lathe.scheduler.nest.times import values_on
from lathe.scheduler.state.schedule import StageView

Ints = NDArray[np.int64]
Ranges = Sequence[tuple[LoopVariable, int, int]]


@dataclass(frozen=True)
class StageCount:
    """Instances of a stage: ``executed`` in all, of which ``distinct`` are there once, and ``redundant`` again.

    An instance is a point of the computation's domain, reduction axes included; points that the ``where`` of a
    computation or of a reduction leaves out are none. Where a condition on data says which points there are, these are
    as many as there can be, and not ``exact``.
    """

    executed: int
    distinct: int
    exact: bool = True

    @property
    def redundant(self) -> int:
        return self.executed - self.distinct


class Coverage:
    """How often each point of a stage is computed, summed over the boxes of a nest."""

    def __init__(self, stage: StageView) -> None:
        computation = stage.state.computation
        self.executed = 0
        self.axes = computation.axes
        self.mask, self.exact = possible(happens(computation))
        self.mentioned = [] if self.mask is None else list(axes_of(self.mask))
        # a stage that is computed whole meets each point once: only what is computed in loops may come again
        attachment = stage.state.attachment
        counted = attachment is not None and not attachment.loops
        self.times: Ints | None = np.zeros([axis.extent for axis in self.axes], np.int64) if counted else None
        self.computation = computation

    def add(self, chunk: ChunkNode, around: Ranges) -> None:
        """Count a box, in all iterations of the loops around it."""
        ranges = {variable: (first, last) for variable, first, last in around}
        ranges.update({variable: (0, extent - 1) for variable, extent in chunk.loops})
        if chunk.role != "init":
            self.executed += self._instances(chunk, ranges)
        if self.times is None or chunk.role == "update":
            return
        groups = _groups({axis: chunk.roots[axis] for axis in self.axes})
        factors: list[Ints] = []
        for axes, variables in groups:
            factors.append(self._histogram(chunk, axes, [(v, *ranges[v]) for v in variables]))
        total: Ints = np.full(
            [1] * len(self.axes), _volume(ranges, [v for _, found in groups for v in found]), np.int64
        )
        for (axes, _), factor in zip(groups, factors, strict=True):
            form = [axis.extent if axis in axes else 1 for axis in self.axes]
            total = total * factor.reshape(form)
        self.times += total

    def _instances(self, chunk: ChunkNode, ranges: Mapping[LoopVariable, tuple[int, int]]) -> int:
        """The points of a box at which the mask holds."""
        if self.mask is None:
            return _volume(ranges, [])
        variables = list(dict.fromkeys(v for axis in self.mentioned for v in chunk.roots[axis].variables()))
        grids = _grids([(v, *ranges[v]) for v in variables])
        points = {axis: values_on(chunk.roots[axis], grids) for axis in self.mentioned}
        shape = [ranges[v][1] - ranges[v][0] + 1 for v in variables]
        there = np.broadcast_to(evaluate(self.mask, points), shape)
        return int(np.count_nonzero(there)) * _volume(ranges, variables)

    def _histogram(self, chunk: ChunkNode, axes: list[Axis], ranges: Ranges) -> Ints:
        """How often each point along some axes is met, over the loops that these share."""
        grids = _grids(ranges)
        shape = tuple(last - first + 1 for _, first, last in ranges)
        index: Ints = np.zeros([1] * len(ranges), np.int64)
        for axis in axes:
            index = index * axis.extent + values_on(chunk.roots[axis], grids)
        size = int(np.prod([axis.extent for axis in axes], dtype=np.int64))
        return np.bincount(np.broadcast_to(index, shape).ravel(), minlength=size).astype(np.int64)

    def result(self) -> StageCount:
        if self.times is None:
            return StageCount(self.executed, self.executed, self.exact)
        return StageCount(
            self.executed, int(((self.times > 0) * _points(self.computation, self.mask)).sum()), self.exact
        )


def _points(computation: Computation, mask: Expr | None) -> Ints:
    """How many instances each element of a computation has: its updates, of which conditions leave some out."""
    axes, reductions = computation.axes, computation.reduce_axes
    conditions = [] if mask is None else [mask]
    if reductions:  # of what is none, no box has such elements
        conditions += [each for body in computation.bodies for each in conditions_of(body)]
    mentioned = dict.fromkeys(axis for each in conditions for axis in axes_of(each))
    own = [axis for axis in reductions if axis in mentioned]
    rest = int(np.prod([axis.extent for axis in reductions if axis not in mentioned], dtype=np.int64))
    ranges = [np.arange(axis.start, axis.stop) for axis in (*axes, *own)]
    points = dict(zip((*axes, *own), np.meshgrid(*ranges, indexing="ij", sparse=True), strict=True))
    there: NDArray[np.bool_] = np.ones([1] * (len(axes) + len(own)), np.bool_)
    for each in conditions:
        there = there & evaluate(each, points)
    for position in range(len(own)):
        if there.shape[len(axes) + position] == 1:
            rest *= own[position].extent
    found: Ints = there.sum(axis=tuple(range(len(axes), len(axes) + len(own))), dtype=np.int64) * rest
    return found


def _volume(ranges: Mapping[LoopVariable, tuple[int, int]], without: Sequence[LoopVariable]) -> int:
    """The points of a box, but for the loops left out."""
    return int(np.prod([last - first + 1 for v, (first, last) in ranges.items() if v not in without], dtype=object))


def _grids(ranges: Ranges) -> dict[LoopVariable, Ints]:
    """The values of loops, each along a dimension of its own."""
    grids: dict[LoopVariable, Ints] = {}
    for position, (variable, first, last) in enumerate(ranges):
        form = [-1 if n == position else 1 for n in range(len(ranges))]
        grids[variable] = np.arange(first, last + 1).reshape(form)
    return grids


def _groups(roots: Mapping[Axis, Linear]) -> list[tuple[list[Axis], list[LoopVariable]]]:
    """Axes parted so that no two parts depend on the same loop; each with the loops it depends on."""
    groups: list[tuple[list[Axis], list[LoopVariable]]] = []
    order = list(roots)
    for axis, value in roots.items():
        mine = sorted(value.variables(), key=lambda v: v.name)
        joined: tuple[list[Axis], list[LoopVariable]] = ([axis], mine)
        rest = []
        for other in groups:
            if set(other[1]) & set(joined[1]):
                both = list(dict.fromkeys([*other[1], *joined[1]]))
                joined = (sorted([*other[0], *joined[0]], key=order.index), both)
            else:
                rest.append(other)
        groups = [*rest, joined]
    return groups
