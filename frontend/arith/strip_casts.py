"""Expressions without the casts around them."""

from lathe.frontend.arith.intervals import does_not_wrap
from lathe.frontend.expr.evaluation import evaluate
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, AxisRef, Binary, Cast, Const


def skip_casts(expr: Expr) -> Expr:
    """The expression without the casts around it."""
    while isinstance(expr, Cast):
        expr = expr.operand
    return expr


def skip_value_preserving_casts(expr: Expr) -> Expr:
    """The expression without the casts around it that cannot change its value."""
    while isinstance(expr, Cast) and does_not_wrap(expr):
        expr = expr.operand
    return expr


def constant_value(expr: Expr) -> int | None:
    """The value of a constant with the casts around it applied; None for any other expression."""
    return int(evaluate(expr, {})) if isinstance(skip_casts(expr), Const) else None


def as_bare_axis(index: Expr) -> Axis | None:
    """The axis of an index that is nothing but an axis, apart from casts and ``+ 0``; None for any other."""
    index = skip_casts(index)
    while isinstance(index, Binary) and index.op == "add":
        if isinstance(index.rhs, Const) and index.rhs.value == 0:
            index = skip_casts(index.lhs)
        elif isinstance(index.lhs, Const) and index.lhs.value == 0:
            index = skip_casts(index.rhs)
        else:
            return None
    return index.axis if isinstance(index, AxisRef) else None
