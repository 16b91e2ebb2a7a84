"""Why a unit waits: the causes of docs/timing-model.md, with the numbers that traces and the trace port have for
them.
"""

from enum import IntEnum

from lathe.isa.table import TokenQueue, Unit

# What traces and counters have a track for: the units, and fetch.
TRACK_NAMES = (*(unit.name.lower() for unit in Unit), "fetch")


class StallCause(IntEnum):
    """Causes of waiting, as docs/timing-model.md defines them; ``str()`` gives the name used in counters and traces."""

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


# The cause that names a token queue, and the one that names a unit's command queue, by their numbers.
TOKEN_CAUSES = tuple(StallCause[queue.name] for queue in TokenQueue)
QUEUE_CAUSES = tuple(StallCause[f"{unit.name}_QUEUE"] for unit in Unit)

CAUSES_OF = (
    (StallCause.EMPTY, StallCause.COMPUTE_TO_LOAD, StallCause.MEMORY),
    (
        StallCause.EMPTY,
        StallCause.LOAD_TO_COMPUTE,
        StallCause.STORE_TO_COMPUTE,
        StallCause.DRAIN,
        StallCause.MEMORY,
    ),
    (StallCause.EMPTY, StallCause.COMPUTE_TO_STORE, StallCause.MEMORY),
    (
        StallCause.EMPTY,
        StallCause.MEMORY,
        StallCause.LOAD_QUEUE,
        StallCause.COMPUTE_QUEUE,
        StallCause.STORE_QUEUE,
    ),
)
"""What can hold up each unit, in the order of TRACK_NAMES."""

_NAMES = {
    **{cause: cause.name.lower().replace("_", " ") for cause in StallCause},
    **{cause: queue.arrow for cause, queue in zip(TOKEN_CAUSES, TokenQueue, strict=True)},
}
