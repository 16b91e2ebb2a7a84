"""Why a unit waits, and the bookkeeping of the cycles in which it does."""

from collections.abc import Iterable
from enum import IntEnum


class StallCause(IntEnum):
    """Causes of waiting, as docs/timing.md defines them; ``str()`` gives the name used in counters and traces."""

    NONE = 0
    EMPTY = 1
    LOAD_TO_COMPUTE = 2
    COMPUTE_TO_LOAD = 3
    COMPUTE_TO_STORE = 4
    STORE_TO_COMPUTE = 5
    DRAIN = 6
    MEMORY = 7
    LOAD_QUEUE = 8
    COMPUTE_QUEUE = 9
    STORE_QUEUE = 10

    def __str__(self) -> str:
        return _NAMES[self]


_NAMES = {
    StallCause.NONE: "none",
    StallCause.EMPTY: "empty",
    StallCause.LOAD_TO_COMPUTE: "load->compute",
    StallCause.COMPUTE_TO_LOAD: "compute->load",
    StallCause.COMPUTE_TO_STORE: "compute->store",
    StallCause.STORE_TO_COMPUTE: "store->compute",
    StallCause.DRAIN: "drain",
    StallCause.MEMORY: "memory",
    StallCause.LOAD_QUEUE: "load queue",
    StallCause.COMPUTE_QUEUE: "compute queue",
    StallCause.STORE_QUEUE: "store queue",
}

# The cause that names a token queue, and the one that names a unit's command queue, by their numbers.
TOKEN_CAUSES = (
    StallCause.LOAD_TO_COMPUTE,
    StallCause.COMPUTE_TO_LOAD,
    StallCause.COMPUTE_TO_STORE,
    StallCause.STORE_TO_COMPUTE,
)
QUEUE_CAUSES = (StallCause.LOAD_QUEUE, StallCause.COMPUTE_QUEUE, StallCause.STORE_QUEUE)


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
