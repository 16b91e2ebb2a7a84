"""Write and read events of a buffer in a chunk, in few enough numbers to enumerate.

Loops that move different dimensions of a tensor are treated separately: the time of a value's last read is a sum of
maxima, one for each group of loops, so the reads of a convolution need not be enumerated one by one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import evaluate, reads_data
from lathe.frontend.arith.conditions import guards_of
from lathe.frontend.arith.linear import LoopVariable
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Guard, axes_of
from lathe.scheduler.loop_ir.timestamps import NO_TAG, Occurrence, Tag, values_on
from lathe.scheduler.query_results import QueryBudgetExceeded

Ints = NDArray[np.int64]

LARGEST = 1 << 22
"""The maximum number of loop points, and of events, of a query; beyond, it exceeds its budget."""


@dataclass(frozen=True)
class Events:
    """For each event, its time, the row-major number of its value, and a tag computed from its loops."""

    times: Ints
    values: Ints
    tags: Ints


@dataclass(frozen=True)
class _Number:
    """An index of a tensor, and the stride of the value's number per unit of it."""

    dim: int
    index: Expr
    stride: int


@dataclass(frozen=True)
class LoopGroup:
    """Loops, by position, that move some dimensions of a tensor together, or share a condition with such loops."""

    loops: frozenset[int]
    numbers: tuple[_Number, ...] = ()
    conditions: tuple[Guard, ...] = ()

    @property
    def dims(self) -> list[int]:
        return [number.dim for number in self.numbers]


@dataclass(frozen=True)
class Use:
    """Accesses of a chunk to a tensor: its instances write or read the values at ``indices``, where ``guards`` hold.

    Of the accesses to one value in one iteration of the outermost ``kept`` loops, and of those that the tag depends on,
    only the last counts. Conditions on data are assumed to hold.
    """

    occurrence: Occurrence
    indices: tuple[Expr, ...]
    shape: tuple[int, ...]
    kept: int
    guards: tuple[Guard, ...] = ()
    tag: Tag = NO_TAG

    @property
    def depth(self) -> int:
        """The number of outermost loops that must be enumerated."""
        return max([self.kept, *(n + 1 for n in self.tag.weights)])

    @cached_property
    def groups(self) -> list[LoopGroup]:
        """The loops that matter, in independent groups."""
        position = {span.variable: n for n, span in enumerate(self.occurrence.spans)}
        strides = [int(np.prod(self.shape[dim + 1 :], dtype=np.int64)) for dim in range(len(self.shape))]
        parts: list[LoopGroup] = []
        for dim, (index, stride) in enumerate(zip(self.indices, strides, strict=True)):
            parts.append(LoopGroup(self._loops(index, position), (_Number(dim, index, stride),)))
        for guard in (part for each in self.guards for part in guards_of(*each)):
            if not reads_data(guard[0]):
                parts.append(LoopGroup(self._loops(guard[0], position), (), (guard,)))
        groups: list[LoopGroup] = []
        for part in parts:
            for group in [each for each in groups if each.loops & part.loops]:
                groups.remove(group)
                numbers, conditions = (*group.numbers, *part.numbers), (*group.conditions, *part.conditions)
                part = LoopGroup(part.loops | group.loops, numbers, conditions)
            groups.append(part)
        seen: set[int] = set().union(*(group.loops for group in groups))
        return groups + [LoopGroup(frozenset({n})) for n in range(self.depth) if n not in seen]

    def events(self, fixed: Iterable[int] = ()) -> Events:
        """The events; of the ``fixed`` dimensions, only those of values at index 0.

        Raises QueryBudgetExceeded if there are too many.
        """
        spans = self.occurrence.spans
        seen: set[int] = set().union(*(group.loops for group in self.groups))
        free = [span for n, span in enumerate(spans) if n >= self.depth and n not in seen]
        last = self.occurrence.start + sum((span.count - 1) * span.stride for span in free)
        total = Events(*(np.asarray([each], np.int64) for each in (last, 0, self.tag.constant)))
        for group in self.groups:
            part = self.part(group)
            if set(group.dims) & set(fixed):
                assert len(group.dims) == 1, f"dimensions {group.dims} move together"
                chosen = part.values == 0
                part = Events(part.times[chosen], part.values[chosen], part.tags[chosen])
            if len(total.times) * len(part.times) > LARGEST:
                raise _too_many()
            total = Events(
                np.add.outer(total.times, part.times).reshape(-1),
                np.add.outer(total.values, part.values).reshape(-1),
                np.add.outer(total.tags, part.tags).reshape(-1),
            )
        return total

    def part(self, group: LoopGroup) -> Events:
        """The contribution of a group of loops to times, numbers of values and tags."""
        loops = sorted(group.loops)
        spans = [self.occurrence.spans[n] for n in loops]
        shape = tuple(span.count for span in spans)
        if int(np.prod(shape, dtype=object)) > LARGEST:
            raise _too_many()
        grids: dict[LoopVariable, Ints] = {}
        zero: Ints = np.zeros((), np.int64)
        time, tags, outer, value = zero, zero, zero, zero
        for d, (n, span) in enumerate(zip(loops, spans, strict=True)):
            steps = np.arange(span.count, dtype=np.int64).reshape([-1 if e == d else 1 for e in range(len(loops))])
            grids[span.variable] = steps + span.first
            time = time + steps * span.stride
            tags = tags + steps * self.tag.weights.get(n, 0)
            if n < self.depth:
                outer = outer * span.count + steps
        roots = self.occurrence.chunk.roots
        axes = {axis: values_on(value, grids) for axis, value in roots.items() if value.variables() <= grids.keys()}
        for each in group.numbers:
            value = value + np.asarray(evaluate(each.index, axes), np.int64) * each.stride
        happens = np.ones((), np.bool_)
        for condition, holds in group.conditions:
            happens = happens & (evaluate(condition, axes) == holds)
        flat = [np.broadcast_to(each, shape).reshape(-1) for each in (time, value, tags, outer)]
        if group.conditions:
            chosen = np.broadcast_to(happens, shape).reshape(-1)
            flat = [each[chosen] for each in flat]
        times, values, tags, key = flat
        if all(n < self.depth for n in loops) or not len(times):
            return Events(times, values, tags)
        order = np.lexsort((times, values, key))
        last = np.ones(len(order), np.bool_)
        last[:-1] = (np.diff(key[order]) != 0) | (np.diff(values[order]) != 0)
        order = order[last]
        return Events(times[order], values[order], tags[order])

    def _loops(self, expr: Expr, position: dict[LoopVariable, int]) -> frozenset[int]:
        found: set[int] = set()
        for axis in axes_of(expr):
            found |= {position[variable] for variable in self.occurrence.chunk.roots[axis].variables()}
        return frozenset(found)


def _too_many() -> QueryBudgetExceeded:
    return QueryBudgetExceeded(
        f"with {LARGEST} reads and writes of cells", "Let stages compute less, or give each value a cell of its own."
    )
