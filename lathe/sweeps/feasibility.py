"""Whether a grid has anything that can be measured: the first combination that is possible, or why none is.

Combinations are looked at one by one, scattered over the grid: of a grid in which few are possible, neighbours are
mostly alike.
"""

import math
from collections.abc import Callable, Iterator
from itertools import islice

from lathe.configs import LatheError
from lathe.sweeps.constraints import Constraint, first_broken
from lathe.sweeps.machines import changed
from lathe.sweeps.specification import Sweep

MOST_POINTS = 100_000
"""More points have to be meant. So many combinations are looked at for one that is possible; of more, some are taken
to be."""
GOLDEN = (5**0.5 - 1) / 2


def scattered(count: int) -> Iterator[int]:
    """The numbers below a count, each once and 0 first, such that those in a row are far from each other."""
    step = max(round(count * GOLDEN), 1)
    while math.gcd(step, count) != 1:
        step += 1
    return (at * step % count for at in range(count))


def refusal(attempt: Callable[[int], object], count: int) -> str | None:
    """Why the first of so many cases is refused; None where one of them is not, or where there are too many to tell."""
    first = None
    for case in islice(scattered(count), MOST_POINTS):
        try:
            attempt(case)
        except LatheError as error:
            first = first or str(error)
        else:
            return None
    return first if count <= MOST_POINTS else None


def forbidding(constraints: tuple[Constraint, ...], sweep: Sweep) -> str | None:
    """The first constraint that is broken where no machine of a sweep exists and keeps them all; else None.

    Raises SweepError for one that is neither true nor false.
    """
    broken = None
    count = len(sweep.bases) * sweep.machine.count
    for place in islice(scattered(count), MOST_POINTS):
        base, machine = divmod(place, sweep.machine.count)
        try:
            found = changed(sweep.bases[base], sweep.machine.at(machine))
        except LatheError:
            continue
        first = first_broken(constraints, found)
        if first is None:
            return None
        broken = broken or first
    return broken if count <= MOST_POINTS else None
