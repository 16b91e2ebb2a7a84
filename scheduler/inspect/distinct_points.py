"""Number of distinct points that a union of boxes covers, without enumerating them where axes are independent.

In a box of a partitioned nest each axis is a linear function of loops. Axes without a common loop are independent, so
the box is a Cartesian product of one set of values per axis, represented as intervals whatever the extents. The values
of an axis are classified by the boxes that contain them, which gives few classes, and points are counted by class. Axes
that share loops, or that a condition relates, are enumerated together.
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
"""Sorted and neither overlapping nor adjacent; both ends included."""
PointClasses = dict[int, int]
"""Number of points per class; a class is a bit mask of the boxes that contain the points."""


@dataclass(frozen=True)
class CoveredBox:
    """A box: each axis as a linear function of loops, and the first and last value of each loop."""

    roots: Mapping[Axis, Linear]
    ranges: RangeByVariable


@dataclass(frozen=True)
class Weight:
    """How often a point counts, by its coordinates along some axes: an array with a dimension for each, from 0 on."""

    axes: tuple[Axis, ...]
    values: Ints


def covered_points(axes: Sequence[Axis], boxes: Sequence[CoveredBox], weights: Sequence[Weight]) -> int:
    """The number of points in the union of the boxes, each with the product of its weights, which share no axis."""
    tied = [each.axes for each in weights]
    for box in boxes:
        variables = {axis: box.roots[axis].variables() for axis in axes}
        tied += [(one, other) for n, one in enumerate(axes) for other in axes[:n] if variables[one] & variables[other]]
    product: PointClasses = {(1 << len(boxes)) - 1: 1}
    for group in connected(axes, tied):
        own = [each for each in weights if set(each.axes) & set(group)]
        classes = _by_value(group[0], boxes) if len(group) == 1 and not own else _by_point(group, boxes, own)
        both: PointClasses = {}
        for some, count in product.items():
            for others, more in classes.items():
                if some & others:
                    both[some & others] = both.get(some & others, 0) + count * more
        product = both
    constant = prod(int(each.values) for each in weights if not each.axes)
    return sum(product.values()) * constant


def connected(things: Sequence[T], tied: Iterable[Sequence[T]]) -> list[tuple[T, ...]]:
    """Connected components: items that are tied are in the same group; all in the given order.

    >>> connected(["x", "y", "z"], [("x", "z")])
    [('x', 'z'), ('y',)]
    """
    of_thing = {each: {each} for each in things}
    for some in tied:
        union = {each for one in some for each in of_thing[one]}
        of_thing.update(dict.fromkeys(union, union))
    groups = {id(group): group for group in of_thing.values()}
    return [tuple(each for each in things if each in group) for group in groups.values()]


def _by_value(axis: Axis, boxes: Sequence[CoveredBox]) -> PointClasses:
    """The number of values of an axis per class."""
    changes: dict[int, int] = {}
    for number, box in enumerate(boxes):
        for first, last in intervals_of(box.roots[axis], box.ranges):
            for value in (first, last + 1):
                changes[value] = changes.get(value, 0) ^ (1 << number)
    classes: PointClasses = {}
    present, before = 0, 0
    for value in sorted(changes):
        if present:
            classes[present] = classes.get(present, 0) + value - before
        present, before = present ^ changes[value], value
    return classes


def intervals_of(value: Linear, ranges: RangeByVariable) -> Intervals:
    """The values of a linear expression over a box, as intervals.

    >>> i, j = LoopVariable("i", 3), LoopVariable("j", 4)
    >>> intervals_of(Linear(5, {i: 10, j: 1}), {i: (0, 2), j: (0, 3)})
    [(5, 8), (15, 18), (25, 28)]
    >>> intervals_of(Linear(5, {i: 4, j: 1}), {i: (0, 2), j: (0, 3)})
    [(5, 16)]
    """
    starts, strides = _enumerated([value], ranges)
    intervals = [(int(each), int(each)) for each in np.unique(starts[0])]
    for count, (stride,) in sorted(strides, key=lambda each: abs(each[1][0])):
        reach = stride * (count - 1)
        intervals = _merged(intervals)
        shifts = range(min(reach, 0), max(reach, 0) + 1, abs(stride))
        spread: Intervals = []
        for first, last in intervals:
            if last - first + 1 >= abs(stride):
                spread.append((first + shifts[0], last + shifts[-1]))
            else:
                spread += [(first + by, last + by) for by in shifts]
        intervals = sorted(spread)
    return _merged(intervals)


def _merged(intervals: Intervals) -> Intervals:
    """Sorted intervals with overlapping and adjacent ones merged."""
    merged: Intervals = []
    for first, last in intervals:
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged


def _enumerated(
    values: Sequence[Linear], ranges: RangeByVariable
) -> tuple[list[Ints], list[tuple[int, tuple[int, ...]]]]:
    """Values of expressions (arrays that broadcast together) over all loops that are in divisions, the others at their
    first iteration; and for each of the others the number of iterations and the stride of each expression."""
    quotients = [atom for each in values for atom in each.terms if isinstance(atom, FloorDivision)]
    divided = {variable for each in quotients for variable in each.numerator.variables()}
    variables = dict.fromkeys(v for each in values for v in sorted(each.variables(), key=lambda v: v.name))
    grids: dict[LoopVariable, Ints] = {}
    strides: list[tuple[int, tuple[int, ...]]] = []
    enumerated = [v for v in variables if v in divided]
    for variable in variables:
        first, last = ranges[variable]
        if variable in divided:
            shape = [-1 if v is variable else 1 for v in enumerated]
            grids[variable] = np.arange(first, last + 1).reshape(shape)
            continue
        grids[variable] = np.asarray(first, np.int64)
        if last > first:
            strides.append((last - first + 1, tuple(each.terms.get(variable, 0) for each in values)))
    return [values_on(each, grids) for each in values], strides


def _by_point(axes: Sequence[Axis], boxes: Sequence[CoveredBox], weights: Sequence[Weight]) -> PointClasses:
    """The weighted number of points along some axes per class, by enumeration."""
    shape = tuple(axis.extent for axis in axes)
    times: Ints = np.ones([1] * len(axes), np.int64)
    for each in weights:
        order = sorted(range(len(each.axes)), key=lambda n: axes.index(each.axes[n]))
        own_shape = [axis.extent if axis in each.axes else 1 for axis in axes]
        times = times * each.values.transpose(order).reshape(own_shape)
    times = np.broadcast_to(times, shape).ravel()
    masks: list[int] = [0]
    which: Ints = np.zeros(times.shape, np.int64)  # per point, the index of its mask
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
    """Whether a box contains each point along some axes."""
    inside = np.zeros([axis.extent for axis in axes], np.bool_)
    starts, strides = _enumerated([box.roots[axis] - axis.start for axis in axes], box.ranges)
    inside[tuple(starts)] = True
    for count, stride in strides:
        done = 1
        while done < count:  # doubles the number of iterations
            more = min(done, count - done)
            into, out_of = _shifted(inside.shape, [c * more for c in stride])
            inside[into] |= inside[out_of].copy()
            done += more
    return inside


def _shifted(shape: Sequence[int], by: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """The target and the source slices of an array shifted by some elements along each dimension."""
    into = tuple(slice(max(c, 0), size + min(c, 0)) for c, size in zip(by, shape, strict=True))
    return into, tuple(slice(max(-c, 0), size + min(-c, 0)) for c, size in zip(by, shape, strict=True))
