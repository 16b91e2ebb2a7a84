"""Expressions without operations that need not be carried out: on constants alone, or that change nothing."""

from lathe.frontend import Tensor, evaluate, interval, walk
from lathe.frontend.arith.intervals import does_not_wrap
from lathe.frontend.arith.substitution import rewritten, with_children
from lathe.frontend.expr.dtypes import BOOL, INDEX
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.identities import amounts_to, written_alike
from lathe.frontend.expr.nodes import Binary, Cast, Compare, Const, Not, Read, Select


def folded(expr: Expr) -> Expr:
    """The same value, exact in its dtype, by fewer operations; the same node if there is nothing to save.

    Operations on constants are computed, and such as ``x + 0``, ``max(x, c)`` where x is never below c, ``select`` with
    equal sides, and a conversion there and back are what they amount to. Every tensor is read that was, for it may be
    an input of the program, or made for this reader: ``x * 0`` goes only where x is read besides. Indices are left
    alone; they are folded when they are made.
    """
    found = _folded(expr, lose_tensors=True)
    return found if _tensors(found) == _tensors(expr) else _folded(expr, lose_tensors=False)


def _folded(expr: Expr, *, lose_tensors: bool) -> Expr:
    def leaf(node: Expr) -> Expr | None:
        return node if isinstance(node, Read) or node.dtype == INDEX else None

    def over(node: Expr, children: tuple[Expr, ...]) -> Expr:
        made = with_children(node, children)
        found = _simpler(made)
        return made if found is None or not (lose_tensors or _tensors(found) == _tensors(made)) else found

    return rewritten(expr, leaf, over)


def _simpler(expr: Expr) -> Expr | None:
    """What an expression of folded operands amounts to; None if that is itself."""
    match expr:
        case Binary() | Cast() | Compare() | Not() if all(isinstance(each, Const) for each in expr.children):
            return Const(int(evaluate(expr, {})), expr.dtype)
        case Binary(op=("min" | "max") as op, lhs=lhs, rhs=rhs) if expr.dtype != BOOL:
            return _extreme(op, lhs, rhs)
        case Binary(op=op, lhs=lhs, rhs=rhs):
            return amounts_to(op, lhs, rhs)
        case Cast(operand=Cast(operand=inner) as there, dtype=dtype) if inner.dtype == dtype and does_not_wrap(there):
            return inner
        case Select(condition=Const(value=value), then=then, otherwise=otherwise):
            return then if value else otherwise
        case Select(then=then, otherwise=otherwise) if written_alike(then, otherwise):
            return then
    return None


def _extreme(op: str, lhs: Expr, rhs: Expr) -> Expr | None:
    """The operand that is the lesser or the greater one whatever is read, if it is known."""
    (a, b), (c, d) = interval(lhs), interval(rhs)
    if b <= c:
        return lhs if op == "min" else rhs
    if d <= a:
        return rhs if op == "min" else lhs
    return None


def _tensors(expr: Expr) -> set[Tensor]:
    return {node.tensor for node in walk(expr) if isinstance(node, Read)}
