"""What an expression is when the casts around it are left out."""

from lathe.frontend.evaluation import evaluate
from lathe.frontend.indices.intervals import does_not_wrap
from lathe.frontend.nodes import Axis, AxisRef, Binary, Cast, Const
from lathe.frontend.operand import Expr


def bare(expr: Expr) -> Expr:
    """The expression without the casts around it."""
    while isinstance(expr, Cast):
        expr = expr.operand
    return expr


def kept(expr: Expr) -> Expr:
    """The expression without the casts around it that cannot change its value."""
    while isinstance(expr, Cast) and does_not_wrap(expr):
        expr = expr.operand
    return expr


def constant_value(expr: Expr) -> int | None:
    """What a constant is after the casts around it; None for anything else."""
    return int(evaluate(expr, {})) if isinstance(bare(expr), Const) else None


def plain_axis(index: Expr) -> Axis | None:
    """The axis that an index is, if it is nothing but an axis."""
    index = bare(index)
    while isinstance(index, Binary) and index.op == "add":
        if isinstance(index.rhs, Const) and index.rhs.value == 0:
            index = bare(index.lhs)
        elif isinstance(index.lhs, Const) and index.lhs.value == 0:
            index = bare(index.rhs)
        else:
            return None
    return index.axis if isinstance(index, AxisRef) else None
