"""Timestamps: when each statement instance of a partitioned nest is executed, without executing the nest.

Every statement instance gets a number, its time. Loops are boxes, so within one chunk of the nest times are a linear
function of the loops.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.arith.linear import Linear, LoopVariable
from lathe.frontend.expr.nodes import Axis
from lathe.scheduler.loop_ir.nodes import ChunkNode, Loop, Node
from lathe.scheduler.loop_ir.nodes import Guard as GuardNode
from lathe.scheduler.loop_ir.stage_region import shared_depth

Ints = NDArray[np.int64]


@dataclass(eq=False)
class Span:
    """A loop around a chunk: ``count`` iterations from ``first``, each taking ``stride`` units of time.

    ``begin`` is the time of its first iteration in the first iterations of all enclosing loops. ``stride`` is set once
    the walk in this file has visited the loop's body.
    """

    variable: LoopVariable
    first: int
    count: int
    stride: int
    begin: int


@dataclass(frozen=True, eq=False)
class Occurrence:
    """A chunk in its nest: loops ``around`` it and its ``own``, outermost first; its first instance is at ``start``."""

    chunk: ChunkNode
    around: tuple[Span, ...]
    own: tuple[Span, ...]
    start: int

    @property
    def spans(self) -> tuple[Span, ...]:
        return (*self.around, *self.own)

    def shared(self, other: "Occurrence") -> int:
        """How many enclosing loops both chunks share."""
        return shared_depth(self.around, other.around)

    def depth_of(self, variable: LoopVariable) -> int | None:
        """The depth of a variable's loop among those of the chunk, from 1; None if it is not among them."""
        for depth, span in enumerate(self.spans):
            if span.variable is variable:
                return depth + 1
        return None

    def loops_at(self, time: int) -> dict[LoopVariable, int]:
        """The values of the loops at the time of one of the chunk's instances."""
        remaining, values = time - self.start, {}
        for span in self.spans:
            values[span.variable] = span.first + remaining // span.stride
            remaining %= span.stride
        return values

    def instance_at(self, time: int) -> dict[Axis, int]:
        """The values of the computation's axes at the time of an instance."""
        values = self.loops_at(time)
        return {axis: value.value(values) for axis, value in self.chunk.roots.items()}


def occurrences_of(nodes: Sequence[Node]) -> tuple[list[Occurrence], int]:
    """The chunks of a partitioned nest with their times, and the time at which it ends."""
    found: list[Occurrence] = []
    return found, _walk(nodes, [], 0, found)


def _walk(nodes: Sequence[Node], around: list[Span], start: int, found: list[Occurrence]) -> int:
    """Assign times to nodes, from ``start`` on; returns how long they take."""
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
class Tag:
    """A number that distinguishes iterations: ``constant`` plus ``weights`` times the loops, by their positions."""

    constant: int
    weights: Mapping[int, int]

    @staticmethod
    def begin(occurrence: Occurrence, variable: LoopVariable) -> "Tag":
        """When the iteration of a loop that contains a chunk's instance begins; -1 if it is not in this loop."""
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


def values_on(value: Linear, grids: Mapping[LoopVariable, Ints]) -> Ints:
    """The values of a linear expression for loops given as arrays, which must broadcast together."""
    total: Ints = np.asarray(value.constant, np.int64)
    for atom, coefficient in value.terms.items():
        inner = grids[atom] if isinstance(atom, LoopVariable) else values_on(atom.numerator, grids) // atom.divisor
        total = total + coefficient * inner
    return total
