"""Bounds inference: the box that a stage must compute at its compute location, from the reads of its consumers."""

from collections.abc import Mapping

from lathe.frontend.arith.linear import (
    Bound,
    Box,
    Extremum,
    Linear,
    LoopVariable,
    add,
    bound_range,
    extremum,
    floor_divide,
    scale,
)
from lathe.frontend.arith.loop_bounds import Interval, interval_of
from lathe.frontend.expr.nodes import Axis, ReadAccess, reads_data


def eliminate(bound: Bound, visible: set[LoopVariable], box: Box, side: str) -> Bound:
    """The least (``side="low"``) or largest value of a bound over all values of the variables not visible."""
    if isinstance(bound, Extremum):
        return Extremum(bound.kind, tuple(eliminate(inner, visible, box, side) for inner in bound.bounds))
    result = Linear(bound.constant)
    for atom, coefficient in bound.terms.items():
        if isinstance(atom, LoopVariable):
            term = Linear.of(atom, coefficient)
            if atom not in visible:
                term = Linear(term.range(box)[0 if side == "low" else 1])
        else:  # division is monotone, so the numerator is taken at the same end, or at the other for a negative factor
            end = side if coefficient > 0 else ("high" if side == "low" else "low")
            numerator = eliminate(atom.numerator, visible, box, end)
            assert isinstance(numerator, Linear), f"{atom.numerator} is no linear expression"
            term = floor_divide(numerator, atom.divisor) * coefficient
        result += term
    return result


def read_box(access: ReadAccess, axes: Mapping[Axis, Interval], visible: set[LoopVariable], box: Box) -> list[Interval]:
    """Bounds of the cells that one read touches, per dimension of the tensor, in terms of the visible variables.

    Bounds are limited to the tensor, which guarded reads may exceed. An index that has no linear bounds, or depends on
    data, may touch the whole dimension.
    """
    result: list[Interval] = []
    for index, size in zip(access.indices, access.tensor.shape, strict=True):
        interval = None if reads_data(index) else interval_of(index, axes, visible, box)
        if interval is None:
            result.append((Linear(0), Linear(size - 1)))
            continue
        low = extremum("max", [eliminate(interval[0], visible, box, "low"), Linear(0)], box)
        high = extremum("min", [eliminate(interval[1], visible, box, "high"), Linear(size - 1)], box)
        result.append((low, high))
    return result


MOST_CASES = 128
"""The most differences of linear bounds that may decide an extent; a box with more gets constant bounds."""


def hull(boxes: list[list[Interval]], box: Box) -> list[Interval]:
    """The smallest box that contains the given ones, with constant bounds where these would have too many cases."""
    result: list[Interval] = []
    for d in range(len(boxes[0])):
        low = extremum("min", [each[d][0] for each in boxes], box)
        high = extremum("max", [each[d][1] for each in boxes], box)
        if cases(low) * cases(high) > MOST_CASES:
            low, high = Linear(bound_range(low, box)[0]), Linear(bound_range(high, box)[1])
        result.append((low, high))
    return result


def cases(bound: Bound) -> int:
    """How many linear expressions a bound may equal."""
    return 1 if isinstance(bound, Linear) else sum(cases(inner) for inner in bound.bounds)


def extent_of(interval: Interval, box: Box) -> Bound:
    """``high - low + 1``, simplified."""
    return simplified(add(add(interval[1], scale(interval[0], -1)), Linear(1)), box)


def simplified(bound: Bound, box: Box) -> Bound:
    """The bound without extrema that the box decides."""
    if isinstance(bound, Linear):
        return bound
    if bound_range(bound, box)[0] == bound_range(bound, box)[1]:
        return Linear(bound_range(bound, box)[0])
    return extremum(bound.kind, [simplified(inner, box) for inner in bound.bounds], box)
