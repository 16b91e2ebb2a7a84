"""The bookkeeping of the cycles in which a unit waits."""

from collections.abc import Iterable

from lathe.isa.stall import StallCause


def attribute(counts: list[int], begin: int, conditions: Iterable[tuple[StallCause, int]]) -> StallCause:
    """Count the waiting cycles from `begin` on under what holds the unit up in each of them.

    `conditions` are (cause, first cycle in which it no longer holds the unit up), most important first. Adds to
    `counts`, indexed by cause, and returns the cause of the last waiting cycle, NONE when there was none.
    """
    last = StallCause.NONE
    for cause, until in conditions:
        if until > begin:
            counts[cause] += until - begin
            begin = until
            last = cause
    return last
