"""How many different points boxes cover, without listing the points: the values of each axis apart, as intervals.

A box of a partitioned nest gives each axis a linear function of loops. Axes that share no loop take their values
independently, so what the box covers is a product of one set for each; each set is kept as intervals, whatever the
extents. Sorted by which boxes have a value, the values of an axis fall into few classes; points are counted class by
class. Axes that do share loops, or that a condition ties together, are listed as one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.arith.linear import FloorDivision, Linear, LoopVariable
from lathe.frontend.expr.nodes import Axis
from lathe.scheduler.loop_ir.timestamps import values_on

T = TypeVar("T")
Ints = NDArray[np.int64]
RangeByVariable = Mapping[LoopVariable, tuple[int, int]]
Intervals = list[tuple[int, int]]
"""Sorted, apart, both ends included."""
PointClasses = dict[int, int]
"""How much there is, by the boxes that have it: bit ``n`` stands for box ``n``."""


@dataclass(frozen=True)
class CoveredBox:
    """What each axis is in the loops of a box, and the first and last values of these."""

    roots: Mapping[Axis, Linear]
    ranges: RangeByVariable


@dataclass(frozen=True)
class Weight:
    """How often a point counts, by its place along some axes: an array with a dimension for each, from 0 on."""

    axes: tuple[Axis, ...]
    values: Ints


def covered_points(axes: Sequence[Axis], boxes: Sequence[CoveredBox], weights: Sequence[Weight]) -> int:
    """The points along axes that are in some of the boxes, each as often as all its weights say, multiplied.

    Weights that have axes in common must be one.
    """
    tied = [each.axes for each in weights]
    for box in boxes:
        variables = {axis: box.roots[axis].variables() for axis in axes}
        tied += [(one, other) for n, one in enumerate(axes) for other in axes[:n] if variables[one] & variables[other]]
    found: PointClasses = {(1 << len(boxes)) - 1: 1}
    for group in connected(axes, tied):
        own = [each for each in weights if set(each.axes) & set(group)]
        classes = _by_value(group[0], boxes) if len(group) == 1 and not own else _by_point(group, boxes, own)
        both: PointClasses = {}
        for some, count in found.items():
            for others, more in classes.items():
                if some & others:
                    both[some & others] = both.get(some & others, 0) + count * more
        found = both
    alone = prod(int(each.values) for each in weights if not each.axes)
    return sum(found.values()) * alone


def connected(things: Sequence[T], tied: Iterable[Sequence[T]]) -> list[tuple[T, ...]]:
    """Things in groups, so that those that are tied are in one; in order.

    >>> connected(["x", "y", "z"], [("x", "z")])
    [('x', 'z'), ('y',)]
    """
    of_thing = {each: {each} for each in things}
    for some in tied:
        joined = {each for one in some for each in of_thing[one]}
        of_thing.update(dict.fromkeys(joined, joined))
    groups = {id(group): group for group in of_thing.values()}
    return [tuple(each for each in things if each in group) for group in groups.values()]


def _by_value(axis: Axis, boxes: Sequence[CoveredBox]) -> PointClasses:
    """The values of an axis, by the boxes that have them."""
    changes: dict[int, int] = {}
    for number, box in enumerate(boxes):
        for first, last in intervals_of(box.roots[axis], box.ranges):
            for place in (first, last + 1):
                changes[place] = changes.get(place, 0) ^ (1 << number)
    classes: PointClasses = {}
    present, before = 0, 0
    for place in sorted(changes):
        if present:
            classes[present] = classes.get(present, 0) + place - before
        present, before = present ^ changes[place], place
    return classes


def intervals_of(value: Linear, ranges: RangeByVariable) -> Intervals:
    """The values of a linear expression over a box.

    >>> i, j = LoopVariable("i", 3), LoopVariable("j", 4)
    >>> intervals_of(Linear(5, {i: 10, j: 1}), {i: (0, 2), j: (0, 3)})
    [(5, 8), (15, 18), (25, 28)]
    >>> intervals_of(Linear(5, {i: 4, j: 1}), {i: (0, 2), j: (0, 3)})
    [(5, 16)]
    """
    listed, steps = _apart([value], ranges)
    found = [(int(each), int(each)) for each in np.unique(listed[0])]
    for count, (step,) in sorted(steps, key=lambda each: abs(each[1][0])):
        reach = step * (count - 1)
        found = _joined(found)
        moved = range(min(reach, 0), max(reach, 0) + 1, abs(step))
        spread: Intervals = []
        for first, last in found:
            if last - first + 1 >= abs(step):
                spread.append((first + moved[0], last + moved[-1]))
            else:
                spread += [(first + by, last + by) for by in moved]
        found = sorted(spread)
    return _joined(found)


def _joined(found: Intervals) -> Intervals:
    """Intervals in order, those made one that overlap or adjoin."""
    joined: Intervals = []
    for first, last in found:
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(last, joined[-1][1])
        else:
            joined.append((first, last))
    return joined


def _apart(values: Sequence[Linear], ranges: RangeByVariable) -> tuple[list[Ints], list[tuple[int, tuple[int, ...]]]]:
    """Expressions over a box: values that broadcast together, where loops that are in divisions are listed and others
    are in their first iteration; and how many iterations the others have, with the step of each expression."""
    quotients = [atom for each in values for atom in each.terms if isinstance(atom, FloorDivision)]
    divided = {variable for each in quotients for variable in each.numerator.variables()}
    variables = dict.fromkeys(v for each in values for v in sorted(each.variables(), key=lambda v: v.name))
    grids: dict[LoopVariable, Ints] = {}
    steps: list[tuple[int, tuple[int, ...]]] = []
    listed = [v for v in variables if v in divided]
    for variable in variables:
        first, last = ranges[variable]
        if variable in divided:
            form = [-1 if v is variable else 1 for v in listed]
            grids[variable] = np.arange(first, last + 1).reshape(form)
            continue
        grids[variable] = np.asarray(first, np.int64)
        if last > first:
            steps.append((last - first + 1, tuple(each.terms.get(variable, 0) for each in values)))
    return [values_on(each, grids) for each in values], steps


def _by_point(axes: Sequence[Axis], boxes: Sequence[CoveredBox], weights: Sequence[Weight]) -> PointClasses:
    """The points along some axes, by the boxes that have them, each as often as its weights say."""
    shape = tuple(axis.extent for axis in axes)
    times: Ints = np.ones([1] * len(axes), np.int64)
    for each in weights:
        order = sorted(range(len(each.axes)), key=lambda n: axes.index(each.axes[n]))
        form = [axis.extent if axis in each.axes else 1 for axis in axes]
        times = times * each.values.transpose(order).reshape(form)
    times = np.broadcast_to(times, shape).ravel()
    masks: list[int] = [0]
    which: Ints = np.zeros(times.shape, np.int64)  # the position of each point's mask
    for number, box in enumerate(boxes):
        inside = _points(axes, box).ravel()
        if not inside.any():
            continue
        pairs, which = np.unique(which * 2 + inside, return_inverse=True)
        masks = [masks[pair >> 1] | (pair & 1) << number for pair in pairs.tolist()]
    totals: Ints = np.zeros(len(masks), np.int64)
    np.add.at(totals, which, times)
    return {mask: total for mask, total in zip(masks, totals.tolist(), strict=True) if mask and total}


def _points(axes: Sequence[Axis], box: CoveredBox) -> NDArray[np.bool_]:
    """Which points along some axes a box has."""
    found = np.zeros([axis.extent for axis in axes], np.bool_)
    places, steps = _apart([box.roots[axis] - axis.start for axis in axes], box.ranges)
    found[tuple(places)] = True
    for count, step in steps:
        done = 1
        while done < count:  # twice as many iterations each time
            more = min(done, count - done)
            into, out_of = _shifted(found.shape, [c * more for c in step])
            found[into] |= found[out_of].copy()
            done += more
    return found


def _shifted(shape: Sequence[int], by: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """The parts of an array that a shift leads to, and from."""
    into = tuple(slice(max(c, 0), size + min(c, 0)) for c, size in zip(by, shape, strict=True))
    return into, tuple(slice(max(-c, 0), size + min(-c, 0)) for c, size in zip(by, shape, strict=True))
