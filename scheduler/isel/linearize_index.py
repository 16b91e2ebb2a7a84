"""Index expressions as linear functions of a chunk's loops."""

from collections.abc import Mapping, Sequence

import numpy as np

from lathe.frontend import evaluate, reads_data
from lathe.frontend.arith.conditions import guards_of
from lathe.frontend.arith.linear import Linear, LoopVariable
from lathe.frontend.expr.nodes import Axis, Guard, axes_of
from lathe.scheduler.isel.chunk import Index


class Bend(Exception):  # noqa: N818 - no error: the chunk is cut there
    """An index is linear on both sides only if loop ``loop`` of a chunk is cut after ``count`` iterations."""

    def __init__(self, loop: int, count: int) -> None:
        super().__init__(loop, count)
        self.loop = loop
        self.count = count


def index_in_loops(
    value: Linear, loops: Sequence[tuple[LoopVariable, range]], environment: Mapping[LoopVariable, int]
) -> Index:
    """A linear expression in the iterations of a chunk's loops, each over a range; the outer loops' values are put in.

    Raises Bend where a division does not come out even for the whole of the ranges.
    """
    constant = value.constant
    coefficients = [0] * len(loops)
    position = {variable: n for n, (variable, _) in enumerate(loops)}
    for atom, coefficient in value.terms.items():
        if isinstance(atom, LoopVariable):
            if atom in position:
                coefficients[position[atom]] += coefficient
                constant += coefficient * loops[position[atom]][1].start
            else:
                constant += coefficient * environment[atom]
            continue
        inner = index_in_loops(atom.numerator, loops, environment)
        divisor = atom.divisor
        reach = {n: c % divisor * (len(loops[n][1]) - 1) for n, c in enumerate(inner.coefficients) if c % divisor}
        room = divisor - 1 - inner.constant % divisor
        if sum(reach.values()) > room:
            widest = max(reach, key=lambda n: (reach[n] > 0, inner.coefficients[n] % divisor))
            left = room - sum(reach.values()) + reach[widest]
            step = inner.coefficients[widest] % divisor
            raise Bend(widest, min(max(left, 0) // step + 1, len(loops[widest][1]) - 1))
        constant += coefficient * (inner.constant // divisor)
        for n, c in enumerate(inner.coefficients):  # the remainders never carry, so only whole quotients are left
            coefficients[n] += coefficient * (c // divisor)
    return Index(constant, tuple(coefficients))


def index_where_read(
    value: Linear,
    loops: Sequence[tuple[LoopVariable, range]],
    environment: Mapping[LoopVariable, int],
    guards: Sequence[Guard],
    axes: Mapping[Axis, Index],
) -> Index:
    """The same of an index that is read under conditions: where they do not hold it may be anything.

    Between the pixels of a transposed convolution nothing is read, so that ``x // 2`` counts at odd ``x`` alone, and is
    linear there. Raises Bend as ``index_in_loops`` does, where conditions leave more than one iteration of the loop.
    """
    ranges, only = list(loops), dict[int, int]()
    while True:
        try:
            index = index_in_loops(value, ranges, environment)
        except Bend as bend:
            iteration = None if bend.loop in only else _only_iteration(bend.loop, loops, guards, axes)
            if iteration is None:
                raise
            only[bend.loop] = iteration
            variable, part = loops[bend.loop]
            ranges[bend.loop] = variable, part[iteration : iteration + 1]
            continue
        # Iterations are counted from the beginning of each loop, also of those of which one alone counts.
        begin = sum(index.coefficients[n] * iteration for n, iteration in only.items())
        return Index(index.constant - begin, index.coefficients)


def _only_iteration(
    loop: int,
    loops: Sequence[tuple[LoopVariable, range]],
    guards: Sequence[Guard],
    axes: Mapping[Axis, Index],
) -> int | None:
    """The one iteration of a loop that conditions leave, each by itself on an index; None if there are several."""
    left = np.ones(len(loops[loop][1]), np.bool_)
    for guard, holds in (each for condition, met in guards for each in guards_of(condition, met)):
        used = axes_of(guard)
        own = [axis for axis in used if axes[axis].coefficients[loop]]
        if reads_data(guard) or len(used) != 1 or not own:
            continue
        index = axes[own[0]]
        steps = [np.arange(len(part)) * c for (_, part), c in zip(loops, index.coefficients, strict=True)]
        others = np.zeros(1, np.int64)
        for n, step in enumerate(steps):
            if n != loop and index.coefficients[n]:
                others = np.add.outer(others, step).ravel()
        points = index.constant + np.add.outer(steps[loop], others)
        left &= np.broadcast_to(evaluate(guard, {own[0]: points}) == holds, points.shape).any(axis=1)
    there = np.flatnonzero(left)
    return int(there[0]) if len(there) == 1 and len(left) > 1 else None
