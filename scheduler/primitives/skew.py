"""``skew``: iterations of two loops along diagonals."""

from math import gcd

from lathe.scheduler.errors import LegalityError, ScheduleError
from lathe.scheduler.primitives.unimodular import checked_integer, replace_loops
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike, LoopAxis


def skew(
    stage: EditedStage, outer: "AxisLike", inner: "AxisLike", outer_factor: int = 1, inner_factor: int = 1
) -> tuple[LoopAxis, LoopAxis]:
    """Replace the inner of two loops by ``outer_factor * outer + inner_factor * inner``.

    Before::

        for i in 0..5:
          for j in 0..7:
            C[i, j] = A[i, j] + 1

    After ``t, d = s[C].skew(i, j)``::

        for i in 0..5:
          for i.j.d in 0..11:
            C[i, -i + i.j.d] = A[i, -i + i.j.d] + 1 while i <= i.j.d and i.j.d <= i + 6

    The outer loop stays if the inner factor is 1 or -1; else a combination replaces it that completes the map to a
    unimodular one. Of several, it is the first that the dependences allow. Bring the diagonals outside with
    ``reorder(d, t)``: the loop inside then carries none of the dependences that they carry.

    Stages that share both loops with this one are skewed alike. Returns the two loops, outer first. Raises
    ScheduleError if an axis is not a present loop of this stage, both are the same or of different kinds, the inner
    factor is 0, or the factors are no coprime integers; LegalityError if with each combination a stage would read a
    value not computed yet. Tiramisu's skew.
    """
    first, second = stage.find(outer, "skew"), stage.find(inner, "skew")
    if first is second:
        raise ScheduleError(
            f"axes of skew on stage {stage.name} must be two different loops, not {first.name!r} twice.",
            kind="argument",
        )
    if first.kind != second.kind:
        raise ScheduleError(
            f"axes of skew on stage {stage.name} must be two data loops or two reduction loops, not {first.name!r} "
            f"({first.kind}) and {second.name!r} ({second.kind}).",
            kind="limit",
        )
    a = checked_integer(outer_factor, f"factor of axis {first.name}", "skew", stage)
    b = checked_integer(inner_factor, f"factor of axis {second.name}", "skew", stage)
    if b == 0:
        raise ScheduleError(
            f"factor of axis {second.name} of skew on stage {stage.name} must not be 0: its iterations would have no "
            "order.",
            kind="argument",
        )
    if gcd(a, b) != 1:
        raise ScheduleError(
            f"factors of skew on stage {stage.name} must be coprime, not {a} and {b}, which have the common divisor "
            f"{gcd(a, b)}: iterations would have gaps. Divide both by it.",
            kind="argument",
        )
    refusal: LegalityError | None = None
    for p, q in _completions(a, b):
        forward = ((p, q), (a, b))
        inverse = ((b, -q), (-a, p))
        if p * b - q * a < 0:
            inverse = ((-b, q), (a, -p))
        names = (first.name if (p, q) == (1, 0) else f"{first.name}.{second.name}.c", f"{first.name}.{second.name}.d")
        try:
            one, two = replace_loops(stage, "skew", (first, second), names, forward, inverse, (0, 0), together=True)
        except LegalityError as error:
            refusal = refusal or error
        else:
            return one, two
    assert refusal is not None, f"no integers complete factors {a} and {b}"
    raise refusal


def _completions(a: int, b: int) -> list[tuple[int, int]]:
    """Pairs ``p, q`` with ``p * b - q * a`` 1 or -1, small ``q`` first.

    Their sign is free: pairs that increase with the outer loop (with the inner one if ``p`` is 0) come first, then
    those that reverse it. ``q`` is at most ``abs(b)``: others differ by multiples of ``a, b``.
    """
    # q solves q * a = -determinant modulo b, which has a few solutions for each sign, however large the factors.
    period, inverse = abs(b), pow(a, -1, abs(b))
    solved = [
        (abs(q), q < 0, -determinant, q)
        for determinant in (1, -1)
        for q in range(-determinant * inverse % period - 2 * period, period + 1, period)
        if abs(q) <= period
    ]
    found: dict[tuple[int, int], None] = {}
    for _, _, negated, q in sorted(solved):
        p = (q * a - negated) // b
        found[max((p, q), (-p, -q))] = None
    return [*found, *((-p, -q) for p, q in found)]
