"""Lower constant division: ``x // d`` and ``x % d`` by multiplications and shifts, which the ALU has.

The quotient of 0 <= x <= most is ``(x * m) >> s``, with m just above 2**s / d, if that is exact for the last x before a
multiple of d (Granlund and Montgomery, 1994). The range of x is raised by a multiple of d to begin at 0::

    q[i] = x[i] // 3                                                                   # int8

    q[i] = int8((((int32(x[i]) + 129) * 171) >> 9) - 43)

Products have 32 bits, so a wider range is divided digit by digit, as in long division.
"""

from dataclasses import replace

from lathe.frontend import interval
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.expr_base import BinaryOp, Expr
from lathe.frontend.expr.nodes import Binary, Cast, Const, Reduce, reads_data
from lathe.scheduler.isel.select_rule import has_user_rule
from lathe.scheduler.rewriting.rewrite import transform
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.target.target import Target

WORD = DTYPES["int32"]
MOST_SHIFT = 30
LEAST_ESTIMATED = 256
"""For smaller divisors long division takes fewer operations than estimates and corrections."""
MOST_COMPARISONS = 8
"""Quotients that differ by no more are found by comparisons with the multiples of the divisor."""


def lower_constant_division(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Rewrite the divisions of stages by constants other than powers of two, in place, but for stages with user rules.

    Dividends of up to 32 bits (unsigned: 16) are rewritten; wider ones are left, and refused by the ALU's rule.
    """
    for stage in schedule.stages:
        computation = stage.state.computation
        if has_user_rule(stage.state):
            continue
        bodies = tuple(transform(body, _lowered) for body in computation.bodies)
        if any(new is not old for new, old in zip(bodies, computation.bodies, strict=True)):
            stage.change(computation=replace(computation, bodies=bodies))


def _lowered(expr: Expr) -> Expr | None:
    if not isinstance(expr, Binary) or expr.op not in ("floordiv", "mod") or not isinstance(expr.rhs, Const):
        return None
    divisor, limits = expr.rhs.value, DTYPES[expr.dtype]
    if divisor <= 0 or not divisor & (divisor - 1) or not reads_data(expr.lhs) or isinstance(expr.lhs, Reduce):
        return None
    if limits.minimum < WORD.minimum or limits.maximum > WORD.maximum:
        return None
    dividend = transform(expr.lhs, _lowered)
    low, high = interval(Cast(expr.lhs, "index"))
    x = Cast(dividend, "int32") if expr.dtype != "int32" else dividend
    quotient = _quotient(x, max(low, limits.minimum), min(high, limits.maximum), divisor)
    if expr.op == "mod":
        remainder = _op("sub", x, _op("mul", quotient, divisor))
        if expr.dtype == "int32":
            return remainder
        quotient = _op("min", _op("max", remainder, 0), divisor - 1)  # interval analysis sees that it does not wrap
    return Cast(quotient, expr.dtype) if expr.dtype != "int32" else quotient


def _op(op: BinaryOp, lhs: Expr, rhs: Expr | int) -> Expr:
    other = Const(rhs, "int32") if isinstance(rhs, int) else rhs
    neutral = isinstance(other, Const) and other.value == 0 and op not in ("mul", "min", "max")
    return lhs if neutral else Binary(op, lhs, other)


def multiplier(most: int, divisor: int) -> tuple[int, int] | None:
    """m and s with ``x // divisor == (x * m) >> s`` for 0 <= x <= most and products below 2**31; None without any.

    With m * divisor = 2**s + e and e >= 0, the error grows with x: the last x with remainder divisor - 1 decides.
    """
    quotient = (most + 1) // divisor
    last = quotient * divisor - 1  # its quotient is quotient - 1
    for shift in range(MOST_SHIFT + 1):
        factor = -(-(1 << shift) // divisor)
        if most * factor > WORD.maximum:
            return None
        if last * factor < quotient << shift and most * factor < (most // divisor + 1) << shift:
            return factor, shift
    return None


def _quotient(x: Expr, low: int, high: int, divisor: int) -> Expr:
    """``x // divisor`` for low <= x <= high, all of int32."""
    base, steps = low // divisor, high // divisor - low // divisor
    found = multiplier(high - base * divisor, divisor)
    if found is not None and steps and abs(base * divisor) <= WORD.maximum:
        factor, shift = found
        product = _op("mul", _op("sub", x, base * divisor), factor)
        return _op("add", _op("shr", product, shift), base)
    if steps <= MOST_COMPARISONS:
        total: Expr = Const(base, "int32")
        for multiple in range((base + 1) * divisor, (base + steps) * divisor + 1, divisor):
            reached = _op("sub", _op("min", _op("max", x, multiple - 1), multiple), multiple - 1)  # 0 or 1
            total = _op("add", reached, total)
        return total
    if divisor < LEAST_ESTIMATED:
        return _by_digits(x, low, high, divisor)
    first, least, most = _estimate(x, low, high, divisor)
    remainder = _op("sub", x, _op("mul", first, divisor))
    return _op("add", first, _quotient(remainder, least, most, divisor))


def _by_digits(x: Expr, low: int, high: int, divisor: int) -> Expr:
    """The quotient of the upper bits, and that of its remainder with the lower bits."""
    bits = next((n for n in range(16, 0, -1) if multiplier((divisor << n) - 1, divisor)), 1)
    upper = _op("shr", x, bits)
    first = _quotient(upper, low >> bits, high >> bits, divisor)
    remainder = _op("sub", upper, _op("mul", first, divisor))
    digit = _op("add", _op("shl", remainder, bits), _op("mod", x, 1 << bits))
    return _op("add", _op("shl", first, bits), _quotient(digit, 0, (divisor << bits) - 1, divisor))


def _estimate(x: Expr, low: int, high: int, divisor: int) -> tuple[Expr, int, int]:
    """An approximate quotient, from the upper bits of x, and bounds of x less its product with the divisor.

    It is ``((x >> a) * m) >> b`` with 2**a <= divisor and m rounded down. For x >= 0 it is at most the quotient, and
    lower by less than 2 + x / 2**(a + b); for x < 0 it may also be higher by as much.
    """
    dropped = divisor.bit_length() - 1
    largest = max(abs(low >> dropped), abs(high >> dropped), 1)
    shift = max(n for n in range(MOST_SHIFT) if largest * ((1 << dropped + n) // divisor) <= WORD.maximum)
    factor = (1 << dropped + shift) // divisor
    product = _op("shr", _op("mul", _op("shr", x, dropped), factor), shift)
    beyond = -(-max(abs(low), abs(high)) // (1 << dropped + shift)) + 2
    return product, -divisor * beyond if low < 0 else 0, min(divisor * beyond, WORD.maximum)
