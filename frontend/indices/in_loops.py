"""Index expressions in terms of loop variables."""

from collections.abc import Mapping

from lathe.frontend.affine import as_affine
from lathe.frontend.nodes import Axis, AxisRef, Binary, Cast, Compare, Const
from lathe.frontend.operand import Expr
from lathe.frontend.indices.linear import Bound, Extremum, Linear, add, divide, scale


def bound_index(expr: Expr, axes: Mapping[Axis, Bound]) -> Bound | None:
    """An index expression over axes whose values are bounds of loop variables, or None if it is not quasi-linear."""
    affine = as_affine(expr)
    if affine is not None:
        result: Bound = Linear(affine.const)
        for axis, factor in affine.coefficients.items():
            result = add(result, scale(axes[axis], factor))
        return result
    match expr:
        case AxisRef(axis=axis):
            return axes[axis]
        case Cast(operand=operand, dtype="index"):
            return bound_index(operand, axes)
        case Binary(op="add" | "sub" as op, lhs=lhs, rhs=rhs):
            left, right = bound_index(lhs, axes), bound_index(rhs, axes)
            if left is None or right is None:
                return None
            return add(left, right if op == "add" else scale(right, -1))
        case (
            Binary(op="mul", lhs=operand, rhs=Const(value=value))
            | Binary(op="mul", lhs=Const(value=value), rhs=operand)
        ):
            inner = bound_index(operand, axes)
            return None if inner is None else scale(inner, value)
        case Binary(op="floordiv" | "mod" as op, lhs=operand, rhs=Const(value=value)) if value > 0:
            inner = bound_index(operand, axes)
            if inner is None:
                return None
            quotient = divide(inner, value)
            return quotient if op == "floordiv" else add(inner, scale(quotient, -value))
    return None


def linear_index(expr: Expr, axes: Mapping[Axis, Linear]) -> Linear | None:
    """The same over axes that are linear in the loop variables, where the result is, too."""
    index = bound_index(expr, axes)
    assert not isinstance(index, Extremum), f"{expr} is {index} in linear axes"
    return index


def condition_bound(condition: Expr, axes: Mapping[Axis, Bound]) -> Bound | None:
    """What must be at least 0 for a comparison of indices (not for equality) to hold; None for another condition."""
    if not isinstance(condition, Compare) or condition.op not in ("lt", "le", "gt", "ge"):
        return None
    left, right = bound_index(condition.lhs, axes), bound_index(condition.rhs, axes)
    if left is None or right is None:
        return None
    more, less = (left, right) if condition.op in ("gt", "ge") else (right, left)
    return add(add(more, scale(less, -1)), Linear(-1 if condition.op in ("gt", "lt") else 0))
