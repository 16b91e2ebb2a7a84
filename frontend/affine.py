"""Affine forms: a constant plus integer multiples of axes."""

from collections.abc import Mapping
from dataclasses import dataclass

from lathe.frontend.dtypes import DTYPES
from lathe.frontend.nodes import Axis, AxisRef, Binary, Cast, Const
from lathe.frontend.operand import Expr


@dataclass(frozen=True, eq=False)
class Affine:
    """``const + Σ coefficients[axis] · axis``; axes whose coefficient is 0 are left out."""

    const: int
    coefficients: Mapping[Axis, int]

    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest value over the ranges of the axes; both are attained."""
        low = high = self.const
        for axis, factor in self.coefficients.items():
            first, last = factor * axis.start, factor * (axis.stop - 1)
            low += first if factor > 0 else last
            high += last if factor > 0 else first
        return low, high

    def scaled(self, factor: int) -> "Affine":
        if factor == 0:
            return Affine(0, {})
        return Affine(self.const * factor, {axis: value * factor for axis, value in self.coefficients.items()})

    def plus(self, other: "Affine", sign: int = 1) -> "Affine":
        coefficients = dict(self.coefficients)
        for axis, factor in other.coefficients.items():
            coefficients[axis] = coefficients.get(axis, 0) + sign * factor
        return Affine(self.const + sign * other.const, {axis: f for axis, f in coefficients.items() if f})

    def divided(self, divisor: int) -> "tuple[Affine, Affine] | None":
        """Quotient and remainder by a positive constant when both are affine over the axes' ranges, else None.

        They are when what is left after dividing out the multiples of the divisor stays within one period, as in
        ``(4·i + r) // 4 = i`` for ``0 <= r < 4``.
        """
        whole = {axis: factor // divisor for axis, factor in self.coefficients.items() if factor % divisor == 0}
        part = Affine(self.const, {axis: f for axis, f in self.coefficients.items() if f % divisor})
        low, high = part.bounds()
        period = low // divisor
        if high // divisor != period:
            return None
        return Affine(period, whole), Affine(part.const - period * divisor, part.coefficients)


def as_affine(expr: Expr) -> Affine | None:
    """The affine form of ``expr`` over the ranges of its axes, or None when it has none.

    Division and remainder by a positive constant, shifts by constants, and casts that cannot wrap are seen through
    where the result is affine for every value of the axes. The result is exact.
    """
    form = _form(expr)
    if form is None or expr.dtype == "index" or isinstance(expr, Const):
        return form
    low, high = form.bounds()
    fits = DTYPES[expr.dtype].minimum <= low and high <= DTYPES[expr.dtype].maximum
    return form if fits and expr.dtype != "bool" else None


def axes_that_matter(expr: Expr) -> set[Axis]:
    """The axes that the value of ``expr`` depends on; one whose affine coefficient vanishes does not count."""
    found: set[Axis] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        form = as_affine(node)
        if form is not None:
            found.update(form.coefficients)
        elif isinstance(node, AxisRef):
            found.add(node.axis)
        else:
            stack.extend(node.children)
    return found


def _form(expr: Expr) -> Affine | None:
    match expr:
        case Const(value=value):
            return Affine(value, {})
        case AxisRef(axis=axis):
            return Affine(0, {axis: 1})
        case Cast(operand=operand):
            return as_affine(operand)
        case Binary(op=op, lhs=lhs, rhs=rhs):
            left, right = as_affine(lhs), as_affine(rhs)
            if left is None or right is None:
                return None
            return _combined(op, left, right)
    return None


def _combined(op: str, left: Affine, right: Affine) -> Affine | None:
    if op == "add":
        return left.plus(right)
    if op == "sub":
        return left.plus(right, -1)
    if op == "mul":
        if not right.coefficients:
            return left.scaled(right.const)
        return right.scaled(left.const) if not left.coefficients else None
    if op in ("min", "max"):
        difference = left.plus(right, -1).bounds()
        if difference[1] <= 0:
            return left if op == "min" else right
        if difference[0] >= 0:
            return right if op == "min" else left
        return None
    if right.coefficients:
        return None
    amount = right.const
    if op in ("shl", "shr") and -63 < amount < 63:
        if (op == "shl") == (amount >= 0):
            return left.scaled(1 << abs(amount))
        op, amount = "floordiv", 1 << abs(amount)
    if op in ("floordiv", "mod") and amount > 0:
        parts = left.divided(amount)
        return None if parts is None else parts[op == "mod"]
    return None
