"""Constant folding and algebraic simplification of expressions."""

from lathe.frontend import Tensor, evaluate, interval, walk
from lathe.frontend.arith.intervals import does_not_wrap
from lathe.frontend.arith.substitution import rewritten, with_children
from lathe.frontend.expr.dtypes import BOOL, INDEX
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.identities import simplify_identity, structurally_equal
from lathe.frontend.expr.nodes import Binary, Cast, Compare, Const, Not, Read, Select


def fold_expr(expr: Expr) -> Expr:
    """The same value, exact in its dtype, by fewer operations; the same node if there is nothing to fold.

    Operations on constants are evaluated; ``x + 0``, ``max(x, c)`` where x is never below c, ``select`` with equal
    sides, and a conversion to another dtype and back are replaced by their operand. Every tensor that was read still
    is, since it may be an input of the program, or computed for this consumer: ``x * 0`` is folded only where x is also
    read elsewhere in the expression. Indices are not folded here, but when they are built.
    """
    found = _folded(expr, lose_tensors=True)
    return found if _tensors(found) == _tensors(expr) else _folded(expr, lose_tensors=False)


def _folded(expr: Expr, *, lose_tensors: bool) -> Expr:
    def leaf(node: Expr) -> Expr | None:
        return node if isinstance(node, Read) or node.dtype == INDEX else None

    def rebuild(node: Expr, children: tuple[Expr, ...]) -> Expr:
        rebuilt = with_children(node, children)
        found = _simpler(rebuilt)
        return rebuilt if found is None or not (lose_tensors or _tensors(found) == _tensors(rebuilt)) else found

    return rewritten(expr, leaf, rebuild)


def _simpler(expr: Expr) -> Expr | None:
    """The simpler form of an expression whose operands are folded; None if there is none."""
    match expr:
        case Binary() | Cast() | Compare() | Not() if all(isinstance(each, Const) for each in expr.children):
            return Const(int(evaluate(expr, {})), expr.dtype)
        case Binary(op=("min" | "max") as op, lhs=lhs, rhs=rhs) if expr.dtype != BOOL:
            return _extreme(op, lhs, rhs)
        case Binary(op=op, lhs=lhs, rhs=rhs):
            return simplify_identity(op, lhs, rhs)
        case Cast(operand=Cast(operand=inner) as there, dtype=dtype) if inner.dtype == dtype and does_not_wrap(there):
            return inner
        case Select(condition=Const(value=value), then=then, otherwise=otherwise):
            return then if value else otherwise
        case Select(then=then, otherwise=otherwise) if structurally_equal(then, otherwise):
            return then
    return None


def _extreme(op: str, lhs: Expr, rhs: Expr) -> Expr | None:
    """The operand that a ``min`` or ``max`` always equals, by the intervals of its operands; None if unknown."""
    (a, b), (c, d) = interval(lhs), interval(rhs)
    if b <= c:
        return lhs if op == "min" else rhs
    if d <= a:
        return rhs if op == "min" else lhs
    return None


def _tensors(expr: Expr) -> set[Tensor]:
    return {node.tensor for node in walk(expr) if isinstance(node, Read)}
