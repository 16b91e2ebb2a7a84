"""Linearisation of index expressions: as affine functions of the loops of a chunk."""

from collections.abc import Mapping, Sequence

import numpy as np

from lathe.frontend import evaluate, reads_data
from lathe.frontend.arith.conditions import guards_of
from lathe.frontend.arith.linear import Linear, LoopVariable
from lathe.frontend.expr.nodes import Axis, Guard, axes_of
from lathe.scheduler.isel.chunk import Index


class SplitNeeded(Exception):  # noqa: N818 - no error: the chunk is split there
    """An index is only piecewise linear: loop ``loop`` of the chunk must be split after ``count`` iterations."""

    def __init__(self, loop: int, count: int) -> None:
        super().__init__(loop, count)
        self.loop = loop
        self.count = count


def linearize_index(
    value: Linear, loops: Sequence[tuple[LoopVariable, range]], environment: Mapping[LoopVariable, int]
) -> Index:
    """An index as a linear function of a chunk's loops, each over a range, at the values of the outer loops.

    Raises Bend where the remainder of a division wraps around within the ranges.
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
        inner = linearize_index(atom.numerator, loops, environment)
        divisor = atom.divisor
        reach = {n: c % divisor * (len(loops[n][1]) - 1) for n, c in enumerate(inner.coefficients) if c % divisor}
        headroom = divisor - 1 - inner.constant % divisor
        if sum(reach.values()) > headroom:
            widest = max(reach, key=lambda n: (reach[n] > 0, inner.coefficients[n] % divisor))
            rest = headroom - sum(reach.values()) + reach[widest]
            step = inner.coefficients[widest] % divisor
            raise SplitNeeded(widest, min(max(rest, 0) // step + 1, len(loops[widest][1]) - 1))
        constant += coefficient * (inner.constant // divisor)
        for n, c in enumerate(inner.coefficients):  # remainders never carry here, so the quotient is linear
            coefficients[n] += coefficient * (c // divisor)
    return Index(constant, tuple(coefficients))


def linearize_guarded_index(
    value: Linear,
    loops: Sequence[tuple[LoopVariable, range]],
    environment: Mapping[LoopVariable, int],
    guards: Sequence[Guard],
    axes: Mapping[Axis, Index],
) -> Index:
    """The same for an index that is only read where guards hold; it needs to be linear only there.

    Between the pixels of a dilated input nothing is read, so that ``x // 2`` is needed at odd ``x`` only, where it is
    linear. Raises Bend as ``linearize_index`` does, if guards allow more than one iteration of the loop.
    """
    ranges, only = list(loops), dict[int, int]()
    while True:
        try:
            index = linearize_index(value, ranges, environment)
        except SplitNeeded as bend:
            iteration = None if bend.loop in only else _only_iteration(bend.loop, loops, guards, axes)
            if iteration is None:
                raise
            only[bend.loop] = iteration
            variable, part = loops[bend.loop]
            ranges[bend.loop] = variable, part[iteration : iteration + 1]
            continue
        # Loops restricted to one iteration count from 0 again, like all others.
        begin = sum(index.coefficients[n] * iteration for n, iteration in only.items())
        return Index(index.constant - begin, index.coefficients)


def _only_iteration(
    loop: int, loops: Sequence[tuple[LoopVariable, range]], guards: Sequence[Guard], axes: Mapping[Axis, Index]
) -> int | None:
    """The only iteration of a loop at which all guards on single axes can hold; None if there are several."""
    allowed = np.ones(len(loops[loop][1]), np.bool_)
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
        allowed &= np.broadcast_to(evaluate(guard, {own[0]: points}) == holds, points.shape).any(axis=1)
    iterations = np.flatnonzero(allowed)
    return int(iterations[0]) if len(iterations) == 1 and len(allowed) > 1 else None
