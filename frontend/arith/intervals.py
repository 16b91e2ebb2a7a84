"""Bounds on the value of an expression by interval arithmetic over the ranges of its axes."""

from itertools import product
from math import prod

from lathe.frontend.arith.affine import as_affine
from lathe.frontend.expr.dtypes import BOOL, DTYPES, INDEX
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import (
    Axis,
    AxisRef,
    Binary,
    Cast,
    Compare,
    Const,
    Not,
    Parameter,
    Read,
    Reduce,
    Select,
    Undef,
    reads_data,
)

Interval = tuple[int, int]


def interval(expr: Expr) -> Interval:
    """An inclusive range that contains every value of ``expr``; for affine expressions both ends are attained.

    A read may yield any value of its dtype, and so may arithmetic that may wrap around.
    """
    return _interval(expr, {})


def does_not_wrap(expr: Cast | Binary, _: object = None) -> bool:
    """Whether the result of a conversion or operation always fits its dtype; usable as ``Forms.fits``."""
    wide = expr.operand if isinstance(expr, Cast) else Binary(expr.op, Cast(expr.lhs, INDEX), Cast(expr.rhs, INDEX))
    low, high = interval(wide)
    return DTYPES[expr.dtype].minimum <= low and high <= DTYPES[expr.dtype].maximum


def _interval(expr: Expr, known: dict[Expr, Interval]) -> Interval:
    if expr not in known:
        form = None if reads_data(expr) else as_affine(expr)
        known[expr] = form.bounds() if form is not None else _general(expr, known)
    return known[expr]


def _general(expr: Expr, known: dict[Expr, Interval]) -> Interval:
    whole = (DTYPES[expr.dtype].minimum, DTYPES[expr.dtype].maximum)
    match expr:
        case Const(value=value):
            return value, value
        case AxisRef(axis=axis):
            return axis.start, axis.stop - 1
        case Parameter(minimum=minimum, maximum=maximum):
            return minimum, maximum
        case Read() | Compare() | Not() | Undef():
            return whole
        case Cast(operand=operand, dtype=dtype):
            return whole if dtype == BOOL else _unless_wrapping(_interval(operand, known), whole)
        case Select(then=then, otherwise=otherwise):
            (low, high), (other_low, other_high) = _interval(then, known), _interval(otherwise, known)
            return min(low, other_low), max(high, other_high)
        case Reduce(kind=kind, body=body, axes=axes):
            return _reduced(kind, _interval(body, known), axes, whole)
        case Binary(op=op, lhs=lhs, rhs=rhs):
            return _unless_wrapping(_binary(op, _interval(lhs, known), _interval(rhs, known), whole), whole)
    raise AssertionError(f"no interval for {type(expr).__name__}")


def _unless_wrapping(result: Interval, whole: Interval) -> Interval:
    """``result``, or the whole range of the dtype if a value in it may wrap around."""
    return result if whole[0] <= result[0] and result[1] <= whole[1] else whole


def _rounded(value: int, shift: int) -> int:
    """``value`` / 2**shift rounded to the nearest integer, ties to even."""
    down, rest = divmod(value, 1 << shift)
    return down + (2 * rest > 1 << shift or (2 * rest == 1 << shift and down % 2 == 1))


def _reduced(kind: str, body: Interval, axes: tuple[Axis, ...], whole: Interval) -> Interval:
    if kind == "prod":
        return whole
    if kind != "sum":
        return body
    points = prod(axis.extent for axis in axes)
    return _unless_wrapping((body[0] * points, body[1] * points), whole)


def _binary(op: str, left: Interval, right: Interval, whole: Interval) -> Interval:
    (a, b), (c, d) = left, right
    match op:
        case "add":
            return a + c, b + d
        case "sub":
            return a - d, b - c
        case "mul":
            corners = [x * y for x, y in product(left, right)]
            return min(corners), max(corners)
        case "min":
            return min(a, c), min(b, d)
        case "max":
            return max(a, c), max(b, d)
        case "shr" | "shl" if -64 < c <= d < 64:
            sign = 1 if op == "shl" else -1
            corners = [x << s if s >= 0 else x >> -s for x, s in product(left, (sign * c, sign * d))]
            return min(corners), max(corners)
        case "rounding_shift" if -64 < c <= d < 64:  # monotone: larger shifts move values towards 0
            corners = [_rounded(x, s) if s >= 0 else x << -s for x, s in product(left, right)]
            return min(corners), max(corners)
        case "floordiv" if c > 0 or d < 0:
            corners = [x // y for x, y in product(left, right)]
            return min(corners), max(corners)
        case "mod" if c > 0:
            return (a, b) if c == d and a // c == b // c == 0 else (0, d - 1)
        case "mod" if d < 0:
            return c + 1, 0
    return whole
