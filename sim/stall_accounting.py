"""Accounting of the cycles in which a unit is stalled.

Causes are plain integers here: indexing a list by an enum member takes three times as long.
"""

from collections.abc import Iterable

from lathe.isa import stall
from lathe.isa.stall import StallCause

NONE, EMPTY, DRAIN, MEMORY = map(int, (StallCause.NONE, StallCause.EMPTY, StallCause.DRAIN, StallCause.MEMORY))
TOKEN_CAUSES = tuple(map(int, stall.TOKEN_CAUSES))
QUEUE_CAUSES = tuple(map(int, stall.QUEUE_CAUSES))


def attribute(counts: list[int], begin: int, conditions: Iterable[tuple[int, int]]) -> int:
    """Attribute the stall cycles from `begin` on to their causes.

    `conditions` are (cause, first cycle in which it no longer stalls the unit), most important first. Adds to `counts`,
    indexed by cause, and returns the cause of the last stall cycle, NONE when there was none.
    """
    last = NONE
    for cause, until in conditions:
        if until > begin:
            counts[cause] += until - begin
            begin = until
            last = cause
    return last
