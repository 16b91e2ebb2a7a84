"""Abstract interpreter of index arithmetic, generic in the domain of its values.

It alone defines conversions, shifts and divisions by negative numbers, and which operands must be constant. ``Forms``
has the operations of one domain: affine forms (``affine``), bounds over loops (``loop_bounds``), intervals of such
bounds, piecewise quasi-affine functions of isl (``polyhedra``).
"""

from collections.abc import Callable
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from lathe.frontend.expr.dtypes import BOOL, INDEX
from lathe.frontend.expr.expr_base import BinaryOp, Expr
from lathe.frontend.expr.nodes import Axis, AxisRef, Binary, Cast, Const

T = TypeVar("T")
Kind: TypeAlias = Literal["min", "max"]


class Forms(NamedTuple, Generic[T]):
    """The operations of one abstract domain: exact, or None for a result it cannot represent. Divisors are positive.

    What is left out is unsupported: extrema, products of two forms that are not constant, and, without ``fits``, values
    of another dtype than ``index``, which may wrap around.
    """

    constant: Callable[[int], T]
    axis: Callable[[Axis], T]
    add: Callable[[T, T], T]
    scale: Callable[[T, int], T]
    divide: Callable[[T, int], T | None]
    remainder: Callable[[T, int], T | None] | None = None  # left out: computed by ``divide``
    unknown_remainder: Callable[[int], T] | None = None  # by a constant, of an operand without a form
    extremum: Callable[[Kind, T, T], T | None] | None = None
    multiply: Callable[[T, T], T | None] | None = None
    number: Callable[[T], int | None] | None = None  # the value of a constant form; ``Const`` needs none
    fits: Callable[[Cast | Binary, T], bool] | None = None
    shortcut: "Callable[[Expr, Forms[T]], T | None] | None" = None  # tried on a whole expression, before its operands


def form_of(expr: Expr, forms: Forms[T]) -> T | None:
    """The form of an expression; None if it is not index arithmetic or the domain cannot represent it."""
    if isinstance(expr, Const):
        return forms.constant(expr.value)
    if isinstance(expr, AxisRef):
        return forms.axis(expr.axis)
    form = None if forms.shortcut is None else forms.shortcut(expr, forms)
    if form is not None:
        return form
    if isinstance(expr, Cast):
        form = form_of(expr.operand, forms)
    elif isinstance(expr, Binary):
        form = _combined(expr.op, expr.lhs, expr.rhs, forms)
    else:
        return None
    if form is None or expr.dtype == INDEX:
        return form
    return form if expr.dtype != BOOL and forms.fits is not None and forms.fits(expr, form) else None


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
            dividend = left if sign > 0 else forms.scale(left, -1)
            if op == "floordiv":
                return forms.divide(dividend, abs(amount))
            remainder = _remainder(dividend, abs(amount), forms)
            return remainder if remainder is None or sign > 0 else forms.scale(remainder, -1)
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
