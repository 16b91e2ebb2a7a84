"""Reversed axes of an index map: the same map in terms of axes that count in the other direction."""

from lathe.frontend import Axis, as_affine, walk
from lathe.frontend.arith.simplify import simplified_index
from lathe.frontend.arith.substitution import substitute
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Binary, Const


def without_reversal(
    axes: tuple[Axis, ...], indices: tuple[Expr, ...]
) -> tuple[tuple[Axis, ...], tuple[Expr, ...], tuple[int, ...]]:
    """Axes and indices in which no axis is counted from its end, and the positions of the axes that were.

    ``[7 - i, j]`` with 8 values of i is ``[i, j]`` with an i that counts in the other direction.
    """
    found = _reversed(indices)
    positions = tuple(position for position, axis in enumerate(axes) if axis in found and not axis.start)
    if not positions:
        return axes, indices, ()
    others = tuple(Axis(axis.name, axis.extent) if n in positions else axis for n, axis in enumerate(axes))
    values: dict[Axis, Expr] = {}
    for position in positions:
        last = Const(axes[position].extent - 1, "index")
        values[axes[position]] = Binary("sub", last, AxisRef(others[position]))
    return others, tuple(simplified_index(substitute(index, values)) for index in indices), positions


def _reversed(indices: tuple[Expr, ...]) -> set[Axis]:
    """The axes that are counted from their ends by some index, and from their beginnings by none."""
    forwards: set[Axis] = set()
    backwards: set[Axis] = set()
    for index in indices:
        divided = [node.lhs for node in walk(index) if isinstance(node, Binary) and node.op in ("floordiv", "mod")]
        for part in (*divided, index):
            affine = as_affine(part)
            for axis, coefficient in affine.coefficients.items() if affine is not None else ():
                (forwards if coefficient > 0 else backwards).add(axis)
    return backwards - forwards
