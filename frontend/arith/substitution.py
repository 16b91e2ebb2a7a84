"""Substitution of axes, and splitting of axes so that division and remainder by constants become affine."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from operator import is_

from lathe.frontend.arith.affine import as_affine
from lathe.frontend.expr.dtypes import INDEX
from lathe.frontend.expr.expr_base import Expr, walk
from lathe.frontend.expr.nodes import Axis, AxisRef, Binary, Cast, Compare, Const, Not, Read, Reduce, Select

_MOST_SPLITS = 16


def rewritten(
    expr: Expr, leaf: Callable[[Expr], Expr | None], over: "Callable[[Expr, tuple[Expr, ...]], Expr] | None" = None
) -> Expr:
    """``expr`` with nodes replaced by what ``leaf`` returns; if None, ``over`` rebuilds a node over rewritten operands.

    Unchanged nodes keep their identity, and a node shared by several parents stays shared.
    """
    known: dict[Expr, Expr] = {}
    build = with_children if over is None else over

    def visit(node: Expr) -> Expr:
        found = known.get(node)
        if found is None:
            found = leaf(node)
            found = known[node] = build(node, tuple(map(visit, node.children))) if found is None else found
        return found

    return visit(expr)


def substitute(expr: Expr, replacements: Mapping[Axis, Expr]) -> Expr:
    """``expr`` with every reference to an axis in ``replacements`` replaced by the expression given for it.

    Unchanged nodes keep their identity. The axes that a ``Reduce`` reduces over stay.
    """
    return rewritten(expr, lambda node: replacements.get(node.axis) if isinstance(node, AxisRef) else None)


def with_children(expr: Expr, children: tuple[Expr, ...]) -> Expr:
    """The node rebuilt over other operands; the node itself if these are its own."""
    if all(map(is_, children, expr.children)):
        return expr
    match expr:
        case Read(tensor=tensor):
            return Read(tensor, children)
        case Binary(op=op):
            return Binary(op, *children)
        case Compare(op=compare):
            return Compare(compare, *children)
        case Not():
            return Not(*children)
        case Select():
            return Select(*children)
        case Cast(dtype=dtype):
            return Cast(children[0], dtype)
        case Reduce(kind=kind, axes=axes):
            return Reduce(kind, children[0], axes)
    raise AssertionError(f"{type(expr).__name__} has no operands")


class SplitAxes:
    """Axes split by the constants that index expressions divide them by, each into an outer and an inner axis.

    After ``i = 4·i_0 + i_1`` with ``0 <= i_1 < 4``, both ``i // 4 = i_0`` and ``i % 4 = i_1`` are affine. ``parts`` has
    the axes that each original axis was split into, outermost first; together they take the same values in the same
    order. Axes that do not start at 0, or whose extent is not a multiple of the divisor, are not split.
    """

    def __init__(self, axes: tuple[Axis, ...], bodies: tuple[Expr, ...]) -> None:
        self.parts: dict[Axis, tuple[Axis, ...]] = {axis: (axis,) for axis in axes}
        self.bodies = bodies
        for _ in range(_MOST_SPLITS):
            split = next((pair for body in self.bodies for node in walk(body) if (pair := self._split_for(node))), None)
            if split is None:
                break
            self._split(*split)

    def _split_for(self, node: Expr) -> tuple[Axis, int] | None:
        """The axis to split, and the extent of its inner axis, to bring this division closer to an affine form."""
        if not isinstance(node, Binary) or node.op not in ("floordiv", "mod") or node.dtype != INDEX:
            return None
        operand = as_affine(node.lhs)
        if operand is None or not isinstance(node.rhs, Const) or node.rhs.value <= 0 or as_affine(node) is not None:
            return None
        for axis, factor in operand.coefficients.items():
            inner, rest = divmod(node.rhs.value, abs(factor))
            if rest == 0 and 1 < inner < axis.extent and axis.extent % inner == 0 and axis.start == 0:
                return axis, inner
        return None

    def _split(self, axis: Axis, inner_extent: int) -> None:
        outer = replace(axis, name=f"{axis.name}_0", extent=axis.extent // inner_extent)
        inner = replace(axis, name=f"{axis.name}_1", extent=inner_extent)
        scaled = Binary("mul", AxisRef(outer), Const(inner_extent, INDEX))
        replacement = {axis: Binary("add", scaled, AxisRef(inner))}
        self.bodies = tuple(substitute(body, replacement) for body in self.bodies)
        for original, parts in self.parts.items():
            if axis in parts:
                at = parts.index(axis)
                self.parts[original] = (*parts[:at], outer, inner, *parts[at + 1 :])
        for original, parts in self.parts.items():
            assert prod(part.extent for part in parts) == original.extent, original
