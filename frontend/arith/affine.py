"""Affine forms: a constant plus integer multiples of axes."""

from collections.abc import Mapping
from dataclasses import dataclass

from lathe.frontend.arith.index_interpreter import Forms, Kind, form_of
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, AxisRef


@dataclass(frozen=True, eq=False)
class Affine:
    """``const + Σ coefficients[axis] · axis``, without axes whose coefficient is 0."""

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

    def divided(self, divisor: int) -> "Affine | None":
        """Floor division by a positive constant if the quotient is affine over the ranges of the axes, else None.

        That is so if the terms that are not multiples of the divisor stay within one period, as in
        ``(4·i + r) // 4 = i`` for ``0 <= r < 4``.
        """
        quotient = {axis: factor // divisor for axis, factor in self.coefficients.items() if factor % divisor == 0}
        rest = Affine(self.const, {axis: f for axis, f in self.coefficients.items() if f % divisor})
        low, high = rest.bounds()
        return Affine(low // divisor, quotient) if low // divisor == high // divisor else None


def as_affine(expr: Expr) -> Affine | None:
    """The affine form of ``expr`` over the ranges of its axes, or None if it is not affine there.

    Division, remainder and shifts by constants, and casts that cannot wrap around, are allowed where the result is
    affine for every value of the axes. The result is exact.
    """
    return form_of(expr, _OVER_RANGES)


def _extremum(kind: Kind, left: Affine, right: Affine) -> Affine | None:
    low, high = left.plus(right, -1).bounds()
    if high <= 0:
        return left if kind == "min" else right
    if low >= 0:
        return right if kind == "min" else left
    return None


def _fits(expr: Expr, form: Affine) -> bool:
    low, high = form.bounds()
    return DTYPES[expr.dtype].minimum <= low and high <= DTYPES[expr.dtype].maximum


_OVER_RANGES = Forms[Affine](
    constant=lambda value: Affine(value, {}),
    axis=lambda axis: Affine(0, {axis: 1}),
    add=Affine.plus,
    scale=Affine.scaled,
    divide=Affine.divided,
    extremum=_extremum,
    number=lambda form: None if form.coefficients else form.const,
    fits=_fits,
)


def axes_that_matter(expr: Expr) -> set[Axis]:
    """The axes that the value of ``expr`` depends on, without those whose affine coefficient is 0."""
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
