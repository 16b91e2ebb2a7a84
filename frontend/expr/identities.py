"""Arithmetic identities: operations that simplify to one of their operands or to a constant."""

from collections.abc import Mapping

from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Binary, Cast, Compare, Const, Not, Read, Select

_NEUTRAL: Mapping[str, int] = {"add": 0, "mul": 1, "and": 1, "or": 0}
"""Neutral elements, on either side."""
_NEUTRAL_RIGHT: Mapping[str, int] = {**_NEUTRAL, "sub": 0, "shr": 0, "shl": 0, "rounding_shift": 0, "floordiv": 1}
_ABSORBING: Mapping[str, int] = {"mul": 0, "and": 0, "or": 1}
"""Absorbing elements: the result is this value, whatever the other operand is."""


def simplify_identity(op: str, lhs: Expr, rhs: Expr) -> Expr | None:
    """The operand or constant that an operation equals in any dtype, as ``x`` for ``x + 0``; None if none is known."""
    if isinstance(rhs, Const):
        if rhs.value == _NEUTRAL_RIGHT.get(op):
            return lhs
        if op == "mod" and rhs.value == 1:
            return Const(0, rhs.dtype)
    if isinstance(lhs, Const) and lhs.value == _NEUTRAL.get(op):
        return rhs
    return next((each for each in (lhs, rhs) if isinstance(each, Const) and each.value == _ABSORBING.get(op)), None)


def structurally_equal(left: Expr, right: Expr) -> bool:
    """Whether two expressions are structurally equal, and so have the same value."""
    if left is right:
        return True
    if type(left) is not type(right) or left.dtype != right.dtype:
        return False
    match left, right:
        case Const(value=a), Const(value=b):
            return a == b
        case AxisRef(axis=one), AxisRef(axis=other):
            return one is other
        case Read(tensor=tensor), Read(tensor=second):
            if tensor is not second:
                return False
        case (Binary(op=a), Binary(op=b)) | (Compare(op=a), Compare(op=b)):
            if a != b:
                return False
        case (Not(), Not()) | (Cast(), Cast()) | (Select(), Select()):
            pass
        case _:
            return False
    return all(structurally_equal(a, b) for a, b in zip(left.children, right.children, strict=True))
