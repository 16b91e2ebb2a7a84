"""Index expressions as bounds over loop variables: linear up to floor divisions, ``min`` and ``max``."""

from collections.abc import Mapping
from math import gcd
from typing import TypeAlias, TypeVar

from lathe.frontend.arith.affine import as_affine
from lathe.frontend.arith.index_interpreter import Forms, Kind, form_of
from lathe.frontend.arith.intervals import does_not_wrap
from lathe.frontend.arith.linear import (
    Bound,
    Box,
    Extremum,
    FloorDivision,
    Linear,
    LoopVariable,
    add,
    divide,
    floor_divide,
    map_leaves,
    scale,
)
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Compare

T = TypeVar("T")
Interval: TypeAlias = tuple[Bound, Bound]


def bound_forms(values: Mapping[Axis, Bound], box: Box | None = None) -> Forms[Bound]:
    """The domain of bounds over loops, given the values of axes; divisions constant over ``box`` are folded."""

    def divided(form: Bound, divisor: int) -> Bound:
        quotient = divide(form, divisor)
        return quotient if box is None else map_leaves(quotient, lambda linear: _fold_divisions(linear, box))

    return Forms(constant=Linear, axis=values.__getitem__, add=add, scale=scale, divide=divided, extremum=flat_extremum)


def _fold_divisions(quotient: Linear, box: Box) -> Linear:
    """The expression with the floor divisions folded that are constant over the box."""
    result = Linear()
    for atom, coefficient in quotient.terms.items():
        if isinstance(atom, FloorDivision):
            low, high = atom.numerator.range(box)
            if low // atom.divisor == high // atom.divisor:
                result += low // atom.divisor * coefficient
                continue
        result += Linear.of(atom, coefficient)
    return result + quotient.constant


def flat_extremum(kind: Kind, *bounds: Bound) -> Bound:
    """``min`` or ``max`` of bounds; nested extrema of the same kind are flattened."""
    flat: list[Bound] = []
    for bound in bounds:
        flat += bound.bounds if isinstance(bound, Extremum) and bound.kind == kind else [bound]
    return Extremum(kind, tuple(flat))


def affine_shortcut(expr: Expr, forms: Forms[T]) -> T | None:
    """The form of an expression that is affine over the ranges of its axes, which bounds over loops do not know."""
    affine = as_affine(expr)
    if affine is None:
        return None
    form = forms.constant(affine.const)
    for axis, factor in affine.coefficients.items():
        form = forms.add(form, forms.scale(forms.axis(axis), factor))
    return form


def bound_index(expr: Expr, axes: Mapping[Axis, Bound]) -> Bound | None:
    """An index expression as a bound over loop variables, given the values of axes; None if it is not quasi-linear."""
    forms: Forms[Bound] = Forms(
        Linear, axes.__getitem__, add, scale, divide, fits=does_not_wrap, shortcut=affine_shortcut
    )
    return form_of(expr, forms)


def linear_index(expr: Expr, axes: Mapping[Axis, Linear]) -> Linear | None:
    """As ``bound_index``, for axes that are linear in the loop variables: the result is linear, too."""
    index = bound_index(expr, axes)
    assert not isinstance(index, Extremum), f"{expr} is {index} in linear axes"
    return index


def condition_bound(condition: Expr, axes: Mapping[Axis, Bound]) -> Bound | None:
    """A bound that is >= 0 exactly where an inequality of indices holds; None for any other condition."""
    if not isinstance(condition, Compare) or condition.op not in ("lt", "le", "gt", "ge"):
        return None
    left, right = bound_index(condition.lhs, axes), bound_index(condition.rhs, axes)
    if left is None or right is None:
        return None
    more, less = (left, right) if condition.op in ("gt", "ge") else (right, left)
    return add(add(more, scale(less, -1)), Linear(-1 if condition.op in ("gt", "lt") else 0))


def interval_of(
    expr: Expr, axes: Mapping[Axis, Interval], visible: set[LoopVariable] | None = None, box: Box | None = None
) -> Interval | None:
    """Lower and upper bound of an index expression, given those of its axes; None if it is not quasi-linear.

    ``visible`` are the variables that the bounds may contain, ``box`` the ranges of all variables: with both, a
    remainder is exact if the other variables do not move it across a multiple of the divisor.
    """

    def remainder(form: Interval, divisor: int) -> Interval:
        rest = None
        if visible is not None and box is not None and form[0] == form[1]:
            rest = _remainder(form[0], divisor, visible, box)
        return _below(divisor) if rest is None else (rest, rest)

    forms: Forms[Interval] = Forms(  # an annotation, as calling Forms[Interval] is slow
        constant=lambda value: (Linear(value), Linear(value)),
        axis=axes.__getitem__,
        add=lambda left, right: (add(left[0], right[0]), add(left[1], right[1])),
        scale=_scaled,
        divide=lambda form, divisor: (divide(form[0], divisor), divide(form[1], divisor)),
        remainder=remainder,
        unknown_remainder=_below,
        fits=does_not_wrap,
        shortcut=affine_shortcut,
    )
    return form_of(expr, forms)


def _scaled(interval: Interval, factor: int) -> Interval:
    low, high = interval if factor >= 0 else interval[::-1]
    return scale(low, factor), scale(high, factor)


def _below(divisor: int) -> Interval:
    return Linear(0), Linear(divisor - 1)


def _remainder(value: Bound, divisor: int, visible: set[LoopVariable], box: Box) -> Linear | None:
    """``value % divisor``, if the quotient is the same for all values of the variables that are not visible."""
    if not isinstance(value, Linear):
        return None
    fixed = {v: Linear(box[v][0]) for v in value.variables() - visible if box[v][0] == box[v][1]}
    value = value.substitute(fixed.get)
    seen = {atom: c for atom, c in value.terms.items() if Linear.of(atom).variables() <= visible}
    hidden = Linear(value.constant, {atom: c for atom, c in value.terms.items() if atom not in seen})
    stride = gcd(divisor, *seen.values())
    low, high = hidden.range(box)
    if low < 0 or high >= stride:
        return None
    return value - floor_divide(Linear(0, seen), divisor) * divisor
