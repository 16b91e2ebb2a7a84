"""Simplification of index expressions: division and remainder of sums are distributed where that is exact.

``(20 * i + j) // 60`` with ``j`` below 20 is ``i // 3``, and ``(20 * i + j) % 60`` is ``20 * (i % 3) + j``. The
divisions that remain are mostly of single axes, and go away when the axis is split.
"""

from functools import partial
from math import gcd

from lathe.frontend.arith.affine import Affine, as_affine
from lathe.frontend.arith.index_interpreter import Forms, form_of
from lathe.frontend.arith.intervals import does_not_wrap, interval
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.expr.dtypes import INDEX
from lathe.frontend.expr.expr_base import BinaryOp, Expr
from lathe.frontend.expr.nodes import Axis, AxisRef, Binary, Cast, Const


def simplified_index(expr: Expr) -> Expr:
    """An equal expression with as few divisions as possible."""
    affine = as_affine(expr)
    if affine is not None:
        bare = as_bare_axis(expr)  # kept even if its extent is 1: it may be vectorised
        return AxisRef(bare) if bare is not None else _sum(affine)
    match expr:
        case Cast(operand=operand) if (index := form_of(operand, _AS_INDICES)) is not None:
            return simplified_index(index)
        case Binary(op="add" | "sub" | "mul" as op, lhs=lhs, rhs=rhs):
            left, right = simplified_index(lhs), simplified_index(rhs)
            if op != "mul" and isinstance(right, Const) and right.value == 0:
                return left
            if op == "add" and isinstance(left, Const) and left.value == 0:
                return right
            return Binary(op, left, right)
        case Binary(op="floordiv", lhs=lhs, rhs=Const(value=value)) if value > 0:
            return _divided(simplified_index(lhs), value)
        case Binary(op="mod", lhs=lhs, rhs=Const(value=value)) if value > 0:
            return _remainder(simplified_index(lhs), value)
    return expr


def _operation(op: BinaryOp, lhs: Expr, rhs: Expr | int) -> Expr:
    return Binary(op, lhs, Const(rhs, INDEX) if isinstance(rhs, int) else rhs)


_AS_INDICES = Forms[Expr](
    constant=lambda value: Const(value, INDEX),
    axis=AxisRef,
    add=partial(_operation, "add"),
    scale=partial(_operation, "mul"),
    divide=partial(_operation, "floordiv"),
    remainder=partial(_operation, "mod"),
    extremum=_operation,
    multiply=partial(_operation, "mul"),
    fits=does_not_wrap,
)
"""Rebuilds arithmetic of another dtype that cannot wrap around with dtype ``index``."""


def _divided(expr: Expr, divisor: int) -> Expr:
    affine = as_affine(expr)
    if affine is not None:
        return _affine_quotient(affine, divisor)
    match expr:
        case Binary(op="floordiv", lhs=lhs, rhs=Const(value=value)) if value > 0:
            return _divided(lhs, divisor * value)
        case Binary(op="mod", lhs=lhs, rhs=Const(value=value)) if value > 0 and value % divisor == 0:
            return _remainder(_divided(lhs, divisor), value // divisor)
    return Binary("floordiv", expr, Const(divisor, "index"))


def _remainder(expr: Expr, modulus: int) -> Expr:
    affine = as_affine(expr)
    if affine is not None:
        return _affine_remainder(affine, modulus)
    first, last = interval(expr)
    if first >= 0 and last < modulus:
        return expr
    match expr:
        case Binary(op="add", lhs=lhs, rhs=rhs):
            added = as_affine(lhs)
            if added is not None:
                added = _without_multiples(added, modulus)
                if not added.coefficients and not added.const:
                    return _remainder(rhs, modulus)
        case Binary(op="floordiv", lhs=lhs, rhs=Const(value=value)) if value > 0:
            inner = as_affine(lhs)
            if inner is not None:
                inner = _without_multiples(inner, modulus * value)
                low, high = inner.bounds()
                quotient = _affine_quotient(inner, value)
                if low >= 0 and high < modulus * value:
                    return quotient
                return Binary("mod", quotient, Const(modulus, "index"))
        case Binary(op="mod", lhs=lhs, rhs=Const(value=value)) if value > 0 and value % modulus == 0:
            return _remainder(lhs, modulus)
    return Binary("mod", expr, Const(modulus, "index"))


def _without_multiples(affine: Affine, modulus: int) -> Affine:
    """An affine form equal to ``affine`` modulo ``modulus``, without multiples of it."""
    return Affine(affine.const % modulus, {axis: c for axis, c in affine.coefficients.items() if c % modulus})


def _affine_quotient(affine: Affine, divisor: int) -> Expr:
    """``affine // divisor``."""
    if divisor == 1:
        return _sum(affine)
    whole = {axis: c // divisor for axis, c in affine.coefficients.items() if c % divisor == 0}
    out = Affine(affine.const // divisor, whole)
    rest = Affine(affine.const % divisor, {axis: c for axis, c in affine.coefficients.items() if c % divisor})
    low, high = rest.bounds()
    if low >= 0 and high < divisor:
        return _sum(out)
    high_part, _, unit = _high_and_low(rest, divisor)
    inner = _affine_quotient(high_part, divisor // unit) if unit > 1 else None
    if inner is None:
        inner = Binary("floordiv", _sum(rest), Const(divisor, "index"))
    return inner if not out.coefficients and out.const == 0 else Binary("add", _sum(out), inner)


def _affine_remainder(affine: Affine, modulus: int) -> Expr:
    """``affine % modulus``."""
    affine = _without_multiples(affine, modulus)
    low, high = affine.bounds()
    if low >= 0 and high < modulus:
        return _sum(affine)
    high_part, low_part, unit = _high_and_low(affine, modulus)
    if unit == 1:
        return Binary("mod", _sum(affine), Const(modulus, "index"))
    inner = Binary("mul", _affine_remainder(high_part, modulus // unit), Const(unit, "index"))
    return Binary("add", inner, _sum(low_part)) if low_part.coefficients or low_part.const else inner


def _high_and_low(affine: Affine, divisor: int) -> tuple[Affine, Affine, int]:
    """``affine = unit * high + low`` with 0 <= low < unit and unit a divisor of ``divisor``, as large as possible."""
    ordered = sorted(affine.coefficients.items(), key=lambda item: abs(item[1]), reverse=True)
    for count in range(1, len(ordered) + 1):
        unit = divisor
        for _, coefficient in ordered[:count]:
            unit = gcd(unit, coefficient)
        low = Affine(affine.const % unit, dict(ordered[count:]))
        first, last = low.bounds()
        if unit > 1 and first >= 0 and last < unit:
            high = Affine(affine.const // unit, {axis: c // unit for axis, c in ordered[:count]})
            return high, low, unit
    return affine, Affine(0, {}), 1


def _sum(affine: Affine) -> Expr:
    """The affine form as an expression, negative terms last."""
    moving = {axis: factor for axis, factor in affine.coefficients.items() if axis.extent > 1 or axis.start}
    terms = list((moving or affine.coefficients).items())
    added = [_term(axis, factor) for axis, factor in terms if factor > 0]
    subtracted = [_term(axis, -factor) for axis, factor in terms if factor < 0]
    if affine.const or not added:
        added.append(Const(affine.const, "index"))
    total = added[0]
    for term in added[1:]:
        total = Binary("add", total, term)
    for term in subtracted:
        total = Binary("sub", total, term)
    return total


def _term(axis: Axis, factor: int) -> Expr:
    reference = AxisRef(axis)
    return reference if factor == 1 else Binary("mul", reference, Const(factor, "index"))
