"""Products without the taps that only meet padding: parts of a chunk of which each reads cells that hold data.

A convolution with a border multiplies zeros wherever a tap is beside the image: of 3×3 taps on 7×7 pixels 18 of 100.
For each dimension by itself every tap of the reduction has results for which it meets data; taps that have the same
ones are a part together, which leaves out the others. What all taps meet, such as the gaps between the pixels of a
transposed convolution, is left out as steps of a loop.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from math import gcd, prod

import numpy as np
from numpy.typing import NDArray

from lathe.scheduler.isel.chunk import Chunk, VectorOperand, VectorView

PART = 4
"""Steps that one more part must save, on average: its instruction is fetched, and more micro-ops may be."""
MOST = 64
"""Combinations of taps along one dimension that are looked at."""


@dataclass(frozen=True)
class Steps:
    """Iterations of a loop: ``count`` of them from ``first`` on, in steps."""

    first: int
    count: int
    step: int = 1


TapPart = Mapping[int, Steps]
"""Of some loops the iterations; of all others all of them."""


def parts_with_data(chunk: Chunk, view: VectorView, data: VectorOperand, written: VectorOperand) -> list[TapPart]:
    """The parts of a chunk that meet data, those of the most accumulators first: there sums begin."""
    cuts = [each for each in _cuts(chunk, view, data) if each != [{}]]
    if not cuts:
        return [{}]
    best: list[TapPart] | None = None
    least = 0
    for number in range(len(cuts) + 1):
        for chosen in combinations(cuts, number):
            parts: list[TapPart] = [
                {loop: steps for each in some for loop, steps in each.items()} for some in product(*chosen)
            ]
            cost = sum(_steps(view, part) + PART for part in parts)
            if best is None or cost < least:
                best, least = parts, cost
    assert best is not None
    moving = [n for n in view.loops if written.strides[n]]
    return sorted(best, key=lambda part: -prod(part[n].count if n in part else view.extents[n] for n in moving))


def parts_of_zeros(view: VectorView, part: TapPart, data: VectorOperand, written: VectorOperand) -> list[TapPart]:
    """What begins the sums that a part leaves out: one of its taps, which meets zeros there.

    None where two loops move results along one dimension of the data: what one of them leaves out may meet data.
    """
    for each in data.operand.index:
        if sum(n in part and bool(c and written.strides[n]) for n, c in enumerate(each.coefficients)) > 1:
            return []
    once = {n: Steps(part[n].first if n in part else 0, 1) for n in view.loops if not written.strides[n]}
    cut = [n for n in view.loops if n in part and written.strides[n]]
    return [
        {**{other: part[other] for other in cut[:number]}, n: beside, **once}
        for number, n in enumerate(cut)
        for beside in _beside(part[n], view.extents[n])
    ]


def _beside(steps: Steps, extent: int) -> Iterator[Steps]:
    """The iterations of a loop that are none of these."""
    end = steps.first + (steps.count - 1) * steps.step + 1
    for first, last in ((0, steps.first), (end, extent)):
        if first < last:
            yield Steps(first, last - first)
    if steps.count > 1:
        yield from (Steps(steps.first + n, steps.count - 1, steps.step) for n in range(1, steps.step))


def accumulators(view: VectorView, written: VectorOperand) -> NDArray[np.int64]:
    """All accumulators that a chunk adds to."""
    cells = np.array([written.base], np.int64)
    for n in view.loops:
        if written.strides[n]:
            cells = np.add.outer(cells, np.arange(view.extents[n], dtype=np.int64) * written.strides[n]).ravel()
    return np.unique(cells)


def _steps(view: VectorView, part: TapPart) -> int:
    return prod(part[n].count if n in part else view.extents[n] for n in view.loops)


def _cuts(chunk: Chunk, view: VectorView, data: VectorOperand) -> Iterator[list[TapPart]]:
    """For each dimension of the data with cells that hold none, the parts that meet some."""
    place = data.operand.place
    if place is None or place.data is None:
        return
    index = data.operand.index
    used = [{n for n, c in enumerate(each.coefficients) if c and view.extents[n] > 1} for each in index]
    for dim, (held, low, each) in enumerate(zip(place.data, place.low, index, strict=True)):
        alone = not any(used[dim] & used[other] for other in range(len(index)) if other != dim)
        whole = all(n not in view.lanes and view.extents[n] == chunk.loops[n].extent for n in used[dim])
        if held is not None and alone and whole:
            yield list(_parts(chunk, sorted(used[dim]), each.constant - low, each.coefficients, held))


def _parts(chunk: Chunk, loops: list[int], start: int, moves: tuple[int, ...], held: bytes) -> Iterator[TapPart]:
    """The parts of the loops along one dimension, from index ``start`` on; ``held``: which indices hold data."""
    results = [n for n in loops if chunk.loops[n].kind == "data"]
    along = max(results, key=lambda n: chunk.loops[n].extent, default=None)
    taps = [n for n in loops if n != along]
    if prod(chunk.loops[n].extent for n in taps) > MOST:
        yield {}
        return
    met: dict[Steps | None, list[tuple[int, ...]]] = {}
    for point in product(*(range(chunk.loops[n].extent) for n in taps)):
        first = start + sum(moves[n] * value for n, value in zip(taps, point, strict=True))
        if along is None:
            if held[first]:
                met.setdefault(None, []).append(point)
            continue
        found = [n for n in range(chunk.loops[along].extent) if held[first + moves[along] * n]]
        if found:
            met.setdefault(progression(found), []).append(point)
    for steps, points in met.items():
        of_results = {} if along is None or steps is None else {along: steps}
        for box in boxes_of_points(points):
            yield {**of_results, **dict(zip(taps, box, strict=True))}


def progression(values: list[int]) -> Steps:
    """The fewest regular steps that hold all of the values, which ascend."""
    step = 0
    for value in values:
        step = gcd(step, value - values[0])
    return Steps(values[0], (values[-1] - values[0]) // step + 1, step) if step else Steps(values[0], 1)


def boxes_of_points(points: list[tuple[int, ...]]) -> Iterator[tuple[Steps, ...]]:
    """All of the points, in regular boxes: one if they are a box, else runs of the last loop."""
    values = [sorted(set(along)) for along in zip(*points, strict=True)]
    steps = [progression(along) for along in values]
    if prod(each.count for each in steps) == len(points):
        yield tuple(steps)
        return
    rows: dict[tuple[int, ...], list[int]] = {}
    for *outer, last in points:
        rows.setdefault(tuple(outer), []).append(last)
    for row, lasts in rows.items():
        fixed = tuple(Steps(value, 1) for value in row)
        steps_of_row = progression(lasts)
        if steps_of_row.count == len(lasts):
            yield (*fixed, steps_of_row)
        else:
            yield from ((*fixed, Steps(value, 1)) for value in lasts)
