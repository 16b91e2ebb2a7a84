"""The one interpretation of index arithmetic, over whatever its values are taken to be.

What conversions, shifts and divisions by negative numbers mean, and which operands must be numbers, is said here alone.
``Forms`` say what it is to add, scale and divide values of one kind: multiples of axes (``affine``), bounds over loops
(``in_loops``), intervals of such bounds, functions of isl.
"""

from collections.abc import Callable
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from lathe.frontend.expr.dtypes import BOOL, INDEX
from lathe.frontend.expr.expr_base import BinaryOp, Expr
from lathe.frontend.expr.nodes import Axis, AxisRef, Binary, Cast, Const

T = TypeVar("T")
Kind: TypeAlias = Literal["min", "max"]


class Forms(NamedTuple, Generic[T]):
    """Values of one kind, and arithmetic on them: exact, or None where there is no such value. Divisors are positive.

    What is left out has no value: an extremum, a product of two forms neither of which is a number, anything of another
    dtype than ``index``, which may wrap around unless it ``fits``.
    """

    constant: Callable[[int], T]
    axis: Callable[[Axis], T]
    add: Callable[[T, T], T]
    scale: Callable[[T, int], T]
    divide: Callable[[T, int], T | None]
    remainder: Callable[[T, int], T | None] | None = None  # left out: what division leaves
    unknown_remainder: Callable[[int], T] | None = None  # by a number, of what has no form
    extremum: Callable[[Kind, T, T], T | None] | None = None
    multiply: Callable[[T, T], T | None] | None = None
    number: Callable[[T], int | None] | None = None  # what a form is whatever the axes are; constants are known to be
    fits: Callable[[Cast | Binary, T], bool] | None = None
    at_once: "Callable[[Expr, Forms[T]], T | None] | None" = None  # the form of what need not be taken apart


def form_of(expr: Expr, forms: Forms[T]) -> T | None:
    """The form of an expression, or None where it has none: where it is no index arithmetic, or forms cannot say it."""
    if isinstance(expr, Const):
        return forms.constant(expr.value)
    if isinstance(expr, AxisRef):
        return forms.axis(expr.axis)
    found = None if forms.at_once is None else forms.at_once(expr, forms)
    if found is not None:
        return found
    if isinstance(expr, Cast):
        found = form_of(expr.operand, forms)
    elif isinstance(expr, Binary):
        found = _combined(expr.op, expr.lhs, expr.rhs, forms)
    else:
        return None
    if found is None or expr.dtype == INDEX:
        return found
    return found if expr.dtype != BOOL and forms.fits is not None and forms.fits(expr, found) else None


def _combined(op: BinaryOp, lhs: Expr, rhs: Expr, forms: Forms[T]) -> T | None:
    left, right = form_of(lhs, forms), form_of(rhs, forms)
    amount = _number(rhs, right, forms)
    if op in ("shl", "shr"):
        if amount is None or not -63 < amount < 63:
            return None
        op, amount = ("mul" if (op == "shl") == (amount >= 0) else "floordiv"), 1 << abs(amount)
    if left is None and op == "mod" and amount is not None and amount > 0 and forms.unknown_remainder is not None:
        return forms.unknown_remainder(amount)
    if left is None or right is None:
        return None
    match op:
        case "add":
            return forms.add(left, right)
        case "sub":
            return forms.add(left, forms.scale(right, -1))
        case "min" | "max":
            return None if forms.extremum is None else forms.extremum(op, left, right)
        case "mul":
            if amount is not None:
                return forms.scale(left, amount)
            amount = _number(lhs, left, forms)
            if amount is not None:
                return forms.scale(right, amount)
            return None if forms.multiply is None else forms.multiply(left, right)
        case "floordiv" | "mod" if amount:
            sign = 1 if amount > 0 else -1  # x // -d is -x // d, and x % -d is -(-x % d)
            upwards = left if sign > 0 else forms.scale(left, -1)
            if op == "floordiv":
                return forms.divide(upwards, abs(amount))
            rest = _remainder(upwards, abs(amount), forms)
            return rest if rest is None or sign > 0 else forms.scale(rest, -1)
    return None


def _number(expr: Expr, form: T | None, forms: Forms[T]) -> int | None:
    if isinstance(expr, Const):
        return expr.value
    return None if form is None or forms.number is None else forms.number(form)


def _remainder(form: T, divisor: int, forms: Forms[T]) -> T | None:
    if forms.remainder is not None:
        return forms.remainder(form, divisor)
    quotient = forms.divide(form, divisor)
    return None if quotient is None else forms.add(form, forms.scale(quotient, -divisor))
