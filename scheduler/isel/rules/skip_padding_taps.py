"""Skipping of convolution taps that only meet zero padding: a GEMM chunk is split into parts that read data.

A padded convolution multiplies zeros wherever a tap is outside of the image: 18 % of the taps with 3×3 on 7×7 pixels.
For each dimension separately, every tap has a range of results for which it meets data; taps with the same range form
one part, which is restricted to it. The zeros between the pixels of a dilated input are skipped by strided loops.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from math import gcd, prod

import numpy as np
from numpy.typing import NDArray

from lathe.scheduler.isel.chunk import Chunk, VectorOperand, VectorView

PART = 4
"""Cycles that one more part costs on average: another instruction to fetch, and perhaps more micro-ops to load."""
MOST = 64
"""The most combinations of taps along one dimension that are analysed."""


@dataclass(frozen=True)
class Steps:
    """A strided range of iterations: ``count`` from ``first`` on, with stride ``step``."""

    first: int
    count: int
    step: int = 1


TapPart = Mapping[int, Steps]
"""The iterations of some loops; loops not in it run in full."""


def parts_with_data(chunk: Chunk, view: VectorView, data: VectorOperand, written: VectorOperand) -> list[TapPart]:
    """Split a chunk into parts that meet data, the ones with the most accumulators first, where sums can begin."""
    cuts = [each for each in _cuts(chunk, view, data) if each != [{}]]
    if not cuts:
        return [{}]
    best: list[TapPart] | None = None
    least = 0
    for number in range(len(cuts) + 1):
        for chosen in combinations(cuts, number):
            parts: list[TapPart] = [
                {loop: steps for each in combined for loop, steps in each.items()} for combined in product(*chosen)
            ]
            cost = sum(_steps(view, part) + PART for part in parts)
            if best is None or cost < least:
                best, least = parts, cost
    assert best is not None
    moving = [n for n in view.loops if written.strides[n]]
    return sorted(best, key=lambda part: -prod(part[n].count if n in part else view.extents[n] for n in moving))


def parts_of_zeros(view: VectorView, part: TapPart, data: VectorOperand, written: VectorOperand) -> list[TapPart]:
    """Parts that begin the sums that ``part`` does not cover, with one of its taps, which meets zeros there.

    [] if two loops move results along one dimension of the data: the iterations that one skips may then meet data.
    """
    for each in data.operand.index:
        if sum(n in part and bool(c and written.strides[n]) for n, c in enumerate(each.coefficients)) > 1:
            return []
    once = {n: Steps(part[n].first if n in part else 0, 1) for n in view.loops if not written.strides[n]}
    cut = [n for n in view.loops if n in part and written.strides[n]]
    return [
        {**{other: part[other] for other in cut[:number]}, n: skipped, **once}
        for number, n in enumerate(cut)
        for skipped in _complement(part[n], view.extents[n])
    ]


def _complement(steps: Steps, extent: int) -> Iterator[Steps]:
    """The iterations of a loop that are not in a strided range."""
    end = steps.first + (steps.count - 1) * steps.step + 1
    for first, last in ((0, steps.first), (end, extent)):
        if first < last:
            yield Steps(first, last - first)
    if steps.count > 1:
        yield from (Steps(steps.first + n, steps.count - 1, steps.step) for n in range(1, steps.step))


def accumulators(view: VectorView, written: VectorOperand) -> NDArray[np.int64]:
    """All accumulators that a chunk accumulates into."""
    cells = np.array([written.base], np.int64)
    for n in view.loops:
        if written.strides[n]:
            cells = np.add.outer(cells, np.arange(view.extents[n], dtype=np.int64) * written.strides[n]).ravel()
    return np.unique(cells)


def _steps(view: VectorView, part: TapPart) -> int:
    return prod(part[n].count if n in part else view.extents[n] for n in view.loops)


def _cuts(chunk: Chunk, view: VectorView, data: VectorOperand) -> Iterator[list[TapPart]]:
    """For each dimension of the data that has zeros, the parts that meet data; they can be combined freely."""
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
    """Parts of the loops along one dimension that meet data; the index starts at ``start``; ``held``: non-zero mask."""
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
        results_met = [n for n in range(chunk.loops[along].extent) if held[first + moves[along] * n]]
        if results_met:
            met.setdefault(progression(results_met), []).append(point)
    for steps, points in met.items():
        of_results = {} if along is None or steps is None else {along: steps}
        for box in boxes_of_points(points):
            yield {**of_results, **dict(zip(taps, box, strict=True))}


def progression(values: list[int]) -> Steps:
    """The smallest strided range that contains all of the values, which are ascending."""
    step = 0
    for value in values:
        step = gcd(step, value - values[0])
    return Steps(values[0], (values[-1] - values[0]) // step + 1, step) if step else Steps(values[0], 1)


def boxes_of_points(points: list[tuple[int, ...]]) -> Iterator[tuple[Steps, ...]]:
    """Partition points into strided boxes: one if they form a box, else runs of the last loop."""
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
