"""The bookkeeping of the cycles in which a unit waits.

Causes are plain numbers here: a member of an enumeration takes three times as long to index a list.
"""

from collections.abc import Iterable

from lathe.isa import stall
from lathe.isa.stall import StallCause

NONE, EMPTY, DRAIN, MEMORY = map(int, (StallCause.NONE, StallCause.EMPTY, StallCause.DRAIN, StallCause.MEMORY))
TOKEN_CAUSES = tuple(map(int, stall.TOKEN_CAUSES))
QUEUE_CAUSES = tuple(map(int, stall.QUEUE_CAUSES))


def attribute(counts: list[int], begin: int, conditions: Iterable[tuple[int, int]]) -> int:
    """Count the waiting cycles from `begin` on under what holds the unit up in each of them.

    `conditions` are (cause, first cycle in which it no longer holds the unit up), most important first. Adds to
    `counts`, indexed by cause, and returns the cause of the last waiting cycle, NONE when there was none.
    """
    last = NONE
    for cause, until in conditions:
        if until > begin:
            counts[cause] += until - begin
            begin = until
            last = cause
    return last
