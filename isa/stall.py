"""Stall causes of docs/timing-model.md, with their numbers in traces and on the trace port."""

from enum import IntEnum

from lathe.isa.table import TokenQueue, Unit

# The tracks of traces and counters: the units, and fetch.
TRACK_NAMES = (*(unit.name.lower() for unit in Unit), "fetch")


class StallCause(IntEnum):
    """Causes of stalls, as docs/timing-model.md defines them; ``str()`` is the name in counters and traces."""

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


# The causes of token queues and of units' command queues, by queue and unit number.
TOKEN_CAUSES = tuple(StallCause[queue.name] for queue in TokenQueue)
QUEUE_CAUSES = tuple(StallCause[f"{unit.name}_QUEUE"] for unit in Unit)

CAUSES_OF = (
    (StallCause.EMPTY, StallCause.COMPUTE_TO_LOAD, StallCause.MEMORY),
    (StallCause.EMPTY, StallCause.LOAD_TO_COMPUTE, StallCause.STORE_TO_COMPUTE, StallCause.DRAIN, StallCause.MEMORY),
    (StallCause.EMPTY, StallCause.COMPUTE_TO_STORE, StallCause.MEMORY),
    (StallCause.EMPTY, StallCause.MEMORY, StallCause.LOAD_QUEUE, StallCause.COMPUTE_QUEUE, StallCause.STORE_QUEUE),
)
"""The possible stall causes of each track, in the order of TRACK_NAMES."""

_NAMES = {
    **{cause: cause.name.lower().replace("_", " ") for cause in StallCause},
    **{cause: queue.arrow for cause, queue in zip(TOKEN_CAUSES, TokenQueue, strict=True)},
}
