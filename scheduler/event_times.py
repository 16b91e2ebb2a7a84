"""When each value of a partitioned nest is written and read: exact times, in order, without executing the nest.

Every statement instance of a nest gets a number, its time. Loops are boxes, so within one chunk of the nest times are
a linear function of the loops, and so, mostly, are indices. Loops that move different dimensions of a tensor are looked
at apart: the last time at which a value is read is a sum of maxima, one for each group of loops, and a convolution's
reads need not be gone through one by one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import evaluate, reads_data
from lathe.frontend.accesses import Guard
from lathe.frontend.expressions import Axis, Binary, Expr, axes_of
from lathe.scheduler.linear import Linear, LoopVariable
from lathe.scheduler.nest import ChunkNode, Loop, Node
from lathe.scheduler.nest import Guard as GuardNode

Ints = NDArray[np.int64]

LARGEST = 1 << 24
"""How many points of loops, and how many events, one question may have before it counts as too hard."""


class TooManyEvents(Exception):  # noqa: N818 - an answer, which the caller turns into a ScheduleError
    """A question has more events than ``LARGEST``."""


@dataclass(eq=False)
class Span:
    """A loop as a chunk sees it: ``count`` iterations from ``first``, each ``stride`` times long.

    ``begin`` is the time of the first iteration, all loops outside being in their first.
    """

    variable: LoopVariable
    first: int
    count: int
    stride: int
    begin: int


@dataclass(frozen=True, eq=False)
class Occurrence:
    """A chunk in its nest: loops ``around`` it and its ``own``, outermost first; its first instance at ``start``."""

    chunk: ChunkNode
    around: tuple[Span, ...]
    own: tuple[Span, ...]
    start: int

    @property
    def spans(self) -> tuple[Span, ...]:
        return (*self.around, *self.own)

    def shared(self, other: "Occurrence") -> int:
        """How many loops are around both."""
        depth = 0
        for mine, theirs in zip(self.around, other.around, strict=False):
            if mine is not theirs:
                break
            depth += 1
        return depth

    def depth_of(self, variable: LoopVariable) -> int | None:
        """How many loops there are around the chunk down to that of a variable; None if it is not among them."""
        for depth, span in enumerate(self.spans):
            if span.variable is variable:
                return depth + 1
        return None

    def loops_at(self, time: int) -> dict[LoopVariable, int]:
        """The values of the loops at the time of one of the chunk's instances."""
        rest, values = time - self.start, {}
        for span in self.spans:
            values[span.variable] = span.first + rest // span.stride
            rest %= span.stride
        return values

    def instance_at(self, time: int) -> dict[Axis, int]:
        """The values of the computation's axes at the time of an instance."""
        values = self.loops_at(time)
        return {axis: value.value(values) for axis, value in self.chunk.roots.items()}


def occurrences_of(nodes: list[Node]) -> tuple[list[Occurrence], int]:
    """The chunks of a partitioned nest with their times, and the time at which it ends."""
    found: list[Occurrence] = []
    return found, _walk(nodes, [], 0, found)


def _walk(nodes: list[Node], around: list[Span], start: int, found: list[Occurrence]) -> int:
    """Times of nodes, from ``start`` on; how long they take."""
    length = 0
    for node in nodes:
        if isinstance(node, Loop):
            span = Span(node.variable, node.first, node.last - node.first + 1, 0, start + length)
            span.stride = _walk(node.body, [*around, span], start + length, found)
            length += span.stride * span.count
        elif isinstance(node, ChunkNode):
            own: list[Span] = []
            inside = 1
            for variable, extent in reversed(node.loops):
                own.insert(0, Span(variable, 0, extent, inside, start + length))
                inside *= extent
            found.append(Occurrence(node, tuple(around), tuple(own), start + length))
            length += inside
        else:
            assert not isinstance(node, GuardNode), "a guard in a partitioned nest"
    return length


@dataclass(frozen=True)
class Events:
    """Of each event its time, the row-major number of its value, and a tag: what is asked for of its loops."""

    times: Ints
    values: Ints
    tags: Ints


@dataclass(frozen=True)
class Tag:
    """A number that tells iterations apart: ``constant``, and so much more for each step of loops, by position."""

    constant: int
    weights: Mapping[int, int]

    @staticmethod
    def begin(occurrence: Occurrence, variable: LoopVariable) -> "Tag":
        """When the iteration of a loop begins that a chunk's instance is in; -1 if it is in none."""
        depth = occurrence.depth_of(variable)
        if depth is None:
            return Tag(-1, {})
        spans = occurrence.spans[:depth]
        return Tag(spans[-1].begin, {n: span.stride for n, span in enumerate(spans)})

    @staticmethod
    def values(occurrence: Occurrence, variables: Sequence[LoopVariable]) -> "Tag":
        """The values of some of the loops around a chunk's instance, as one number."""
        position = {span.variable: n for n, span in enumerate(occurrence.spans)}
        constant, weight = 0, 1
        weights: dict[int, int] = {}
        for variable in reversed(variables):
            weights[position[variable]] = weight
            constant += occurrence.spans[position[variable]].first * weight
            weight *= variable.extent
        return Tag(constant, weights)


NO_TAG = Tag(0, {})


def events(
    occurrence: Occurrence,
    indices: Sequence[Expr],
    shape: Sequence[int],
    guards: Sequence[Guard],
    kept: int,
    tag: Tag = NO_TAG,
) -> Events:
    """Reads or writes of the values at ``indices`` of a tensor, where ``guards`` hold, by the instances of a chunk.

    Of the events of one value in one iteration of the outermost ``kept`` loops, and of those that the tag is about,
    only the last. Conditions on data are taken to hold. Raises TooManyEvents.
    """
    spans = occurrence.spans
    kept = max([kept, *(n + 1 for n in tag.weights)])
    strides = _strides(shape)
    parts: list[tuple[set[int], list[tuple[Expr, int]], list[Guard]]] = []
    position = {span.variable: n for n, span in enumerate(spans)}
    for expr, stride in zip(indices, strides, strict=True):
        parts.append((_loops(expr, occurrence, position), [(expr, stride)], []))
    for guard in _conjuncts(guards):
        if not reads_data(guard[0]):
            parts.append((_loops(guard[0], occurrence, position), [], [guard]))
    groups: list[tuple[set[int], list[tuple[Expr, int]], list[Guard]]] = []
    for part in parts:
        merged = part
        for group in [each for each in groups if each[0] & part[0]]:
            groups.remove(group)
            merged = (merged[0] | group[0], [*group[1], *merged[1]], [*group[2], *merged[2]])
        groups.append(merged)
    seen: set[int] = set().union(*(group[0] for group in groups))
    groups += [({n}, [], []) for n in range(kept) if n not in seen]
    base = occurrence.start
    base += sum((span.count - 1) * span.stride for n, span in enumerate(spans) if n >= kept and n not in seen)
    total = Events(*(np.asarray([each], np.int64) for each in (base, 0, tag.constant)))
    for loops, numbers, conditions in groups:
        part_events = _group(occurrence, sorted(loops), numbers, conditions, kept, tag)
        if len(total.times) * len(part_events.times) > LARGEST:
            raise TooManyEvents
        total = Events(
            np.add.outer(total.times, part_events.times).reshape(-1),
            np.add.outer(total.values, part_events.values).reshape(-1),
            np.add.outer(total.tags, part_events.tags).reshape(-1),
        )
    return total


def _group(
    occurrence: Occurrence,
    loops: list[int],
    numbers: list[tuple[Expr, int]],
    conditions: list[Guard],
    kept: int,
    tag: Tag,
) -> Events:
    """What some loops contribute to times, numbers of values and tags."""
    spans = [occurrence.spans[n] for n in loops]
    shape = tuple(span.count for span in spans)
    if int(np.prod(shape, dtype=object)) > LARGEST:
        raise TooManyEvents
    grids: dict[LoopVariable, Ints] = {}
    time: Ints = np.zeros((), np.int64)
    tags: Ints = np.zeros((), np.int64)
    outer: Ints = np.zeros((), np.int64)
    for d, (n, span) in enumerate(zip(loops, spans, strict=True)):
        steps = np.arange(span.count, dtype=np.int64).reshape([-1 if other == d else 1 for other in range(len(loops))])
        grids[span.variable] = steps + span.first
        time = time + steps * span.stride
        tags = tags + steps * tag.weights.get(n, 0)
        if n < kept:
            outer = outer * span.count + steps
    axes = {
        axis: values_on(value, grids)
        for axis, value in occurrence.chunk.roots.items()
        if value.variables() <= grids.keys()
    }
    value: Ints = np.zeros((), np.int64)
    for expr, stride in numbers:
        value = value + np.asarray(evaluate(expr, axes), np.int64) * stride
    happens = np.ones((), np.bool_)
    for condition, holds in conditions:
        happens = happens & (evaluate(condition, axes) == holds)
    flat = [np.broadcast_to(each, shape).reshape(-1) for each in (time, value, tags, outer)]
    if happens.ndim or not happens:
        chosen = np.broadcast_to(happens, shape).reshape(-1)
        flat = [each[chosen] for each in flat]
    times, values, tags, key = flat
    if all(n < kept for n in loops) or not len(times):
        return Events(times, values, tags)
    order = np.lexsort((times, values, key))
    last = np.ones(len(order), np.bool_)
    last[:-1] = (np.diff(key[order]) != 0) | (np.diff(values[order]) != 0)
    order = order[last]
    return Events(times[order], values[order], tags[order])


def _loops(expr: Expr, occurrence: Occurrence, position: dict[LoopVariable, int]) -> set[int]:
    found: set[int] = set()
    for axis in axes_of(expr):
        found |= {position[variable] for variable in occurrence.chunk.roots[axis].variables()}
    return found


def _conjuncts(guards: Sequence[Guard]) -> list[Guard]:
    """Conditions that must all hold, as far apart as they come."""
    found: list[Guard] = []
    for condition, holds in guards:
        if isinstance(condition, Binary) and condition.op == ("and" if holds else "or"):
            found += _conjuncts([(condition.lhs, holds), (condition.rhs, holds)])
        else:
            found.append((condition, holds))
    return found


def _strides(shape: Sequence[int]) -> list[int]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    return strides


def values_on(value: Linear, grids: Mapping[LoopVariable, Ints]) -> Ints:
    """A linear expression where loops are arrays that broadcast together."""
    total: Ints = np.asarray(value.constant, np.int64)
    for atom, coefficient in value.terms.items():
        inner = grids[atom] if isinstance(atom, LoopVariable) else values_on(atom.numerator, grids) // atom.divisor
        total = total + coefficient * inner
    return total
