"""Feasibility of a grid: searches for one combination that can be measured, or the reason why there is none.

Combinations are tried in an order that is scattered over the grid, since neighbours mostly fail for the same reason.
"""

import math
from collections.abc import Callable, Iterator
from itertools import islice

from lathe.configs import LatheError
from lathe.sweeps.constraints import Constraint, first_broken
from lathe.sweeps.machines import changed
from lathe.sweeps.specification import Sweep

MOST_POINTS = 100_000
"""The maximum size of a grid without confirmation, and of combinations that are tried; a larger grid that has no
feasible one among these is assumed to be feasible."""
GOLDEN = (5**0.5 - 1) / 2


def scattered(count: int) -> Iterator[int]:
    """The numbers below ``count``, each once, from 0 on, with a large distance between successive ones."""
    step = max(round(count * GOLDEN), 1)
    while math.gcd(step, count) != 1:
        step += 1
    return (at * step % count for at in range(count))


def refusal(attempt: Callable[[int], object], count: int) -> str | None:
    """Why the first of ``count`` cases is refused; None if one is not, or if there are too many cases to try all."""
    first = None
    for case in islice(scattered(count), MOST_POINTS):
        try:
            attempt(case)
        except LatheError as error:
            first = first or str(error)
        else:
            return None
    return first if count <= MOST_POINTS else None


def unsatisfiable_constraint(constraints: tuple[Constraint, ...], sweep: Sweep) -> str | None:
    """A violated constraint if no valid machine of a sweep satisfies them all; else None.

    Raises SweepError for a constraint without a Boolean value.
    """
    broken = None
    count = len(sweep.bases) * sweep.machine.count
    for index in islice(scattered(count), MOST_POINTS):
        base, combination = divmod(index, sweep.machine.count)
        try:
            machine = changed(sweep.bases[base], sweep.machine.at(combination))
        except LatheError:
            continue
        first = first_broken(constraints, machine)
        if first is None:
            return None
        broken = broken or first
    return broken if count <= MOST_POINTS else None
