"""Which box of its domain a stage must compute where it is computed: bounds from the reads of its consumers."""

from collections.abc import Mapping
from math import gcd

from lathe.frontend import as_affine
from lathe.frontend.accesses import ReadAccess
from lathe.frontend.expressions import Axis, AxisRef, Binary, Cast, Const, Expr
from lathe.frontend.indices.linear import (
    Bound,
    Box,
    Extremum,
    Linear,
    LoopVariable,
    add,
    bound_range,
    divide,
    extremum,
    floor_divide,
    scale,
)

Interval = tuple[Bound, Bound]


def eliminate(bound: Bound, visible: set[LoopVariable], box: Box, side: str) -> Bound:
    """The smallest (``side="low"``) or largest value of a bound over all values of the variables not visible."""
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


def interval_of(
    expr: Expr, axes: Mapping[Axis, Interval], visible: set[LoopVariable] | None = None, box: Box | None = None
) -> Interval | None:
    """Lower and upper bound of an index expression, or None where there is no linear one.

    ``visible`` are the variables that the bounds will be in terms of, ``box`` the ranges of all: with them, a remainder
    is bounded by its value where the other variables do not reach across multiples of the divisor.
    """

    def of(inner: Expr) -> Interval | None:
        return interval_of(inner, axes, visible, box)

    affine = as_affine(expr)
    if affine is not None:
        low: Bound = Linear(affine.const)
        high: Bound = Linear(affine.const)
        for axis, factor in affine.coefficients.items():
            first, last = axes[axis] if factor > 0 else axes[axis][::-1]
            low, high = add(low, scale(first, factor)), add(high, scale(last, factor))
        return low, high
    match expr:
        case Const(value=value):
            return Linear(value), Linear(value)
        case AxisRef(axis=axis):
            return axes[axis]
        case Cast(operand=operand, dtype="index"):
            return of(operand)
        case Binary(op="add" | "sub" as op, lhs=lhs, rhs=rhs):
            left, right = of(lhs), of(rhs)
            if left is None or right is None:
                return None
            first, last = right if op == "add" else (scale(right[1], -1), scale(right[0], -1))
            return add(left[0], first), add(left[1], last)
        case (
            Binary(op="mul", lhs=operand, rhs=Const(value=value))
            | Binary(op="mul", lhs=Const(value=value), rhs=operand)
        ):
            inner = of(operand)
            if inner is None:
                return None
            first, last = inner if value >= 0 else inner[::-1]
            return scale(first, value), scale(last, value)
        case Binary(op="floordiv", lhs=operand, rhs=Const(value=value)) if value > 0:
            inner = of(operand)
            return None if inner is None else (divide(inner[0], value), divide(inner[1], value))
        case Binary(op="mod", lhs=operand, rhs=Const(value=value)) if value > 0:
            inner = of(operand)
            if inner is not None and visible is not None and box is not None and inner[0] == inner[1]:
                rest = _remainder(inner[0], value, visible, box)
                if rest is not None:
                    return rest, rest
            return Linear(0), Linear(value - 1)
    return None


def _remainder(value: Bound, divisor: int, visible: set[LoopVariable], box: Box) -> Linear | None:
    """``value % divisor``, if the quotient is the same for all values of the variables that are not visible."""
    if not isinstance(value, Linear):
        return None
    fixed = {v: Linear(box[v][0]) for v in value.variables() - visible if box[v][0] == box[v][1]}
    value = value.substitute(fixed.get)
    seen = {atom: c for atom, c in value.terms.items() if Linear.of(atom).variables() <= visible}
    hidden = Linear(value.constant, {atom: c for atom, c in value.terms.items() if atom not in seen})
    step = gcd(divisor, *seen.values())
    low, high = hidden.range(box)
    if low < 0 or high >= step:
        return None
    return value - floor_divide(Linear(0, seen), divisor) * divisor


def read_box(access: ReadAccess, axes: Mapping[Axis, Interval], visible: set[LoopVariable], box: Box) -> list[Interval]:
    """Per dimension of the tensor, bounds of what one read touches, in terms of the visible variables.

    Where a read is guarded, or its index has no linear bounds, the tensor's own extent is the bound.
    """
    result: list[Interval] = []
    for index, size in zip(access.indices, access.tensor.shape, strict=True):
        interval = interval_of(index, axes, visible, box)
        if interval is None:
            result.append((Linear(0), Linear(size - 1)))
            continue
        low = extremum("max", [eliminate(interval[0], visible, box, "low"), Linear(0)], box)
        high = extremum("min", [eliminate(interval[1], visible, box, "high"), Linear(size - 1)], box)
        result.append((low, high))
    return result


MOST_CASES = 128
"""How many differences of linear bounds an extent may be decided by; beyond, a box of constant bounds is computed."""


def hull(boxes: list[list[Interval]], box: Box) -> list[Interval]:
    """The smallest box that holds all the given ones, or one of constant bounds where that has too many cases."""
    result: list[Interval] = []
    for d in range(len(boxes[0])):
        low = extremum("min", [each[d][0] for each in boxes], box)
        high = extremum("max", [each[d][1] for each in boxes], box)
        if cases(low) * cases(high) > MOST_CASES:
            low, high = Linear(bound_range(low, box)[0]), Linear(bound_range(high, box)[1])
        result.append((low, high))
    return result


def cases(bound: Bound) -> int:
    """How many linear expressions a bound may be."""
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
