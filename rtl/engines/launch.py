"""The inputs and the results of an engine; the same for every engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.isa.fault import BusError, FaultCode
from lathe.isa.sparse_memory import PagedMemory

Ints = NDArray[np.int64]

# Columns of a trace of units, and of fetch's; see Trace.
UNIT_COLUMNS = ("start", "end", "cause", "stalled", "waited")
FETCH_COLUMNS = ("unit", "dispatch", "dispatch_cause", "dispatch_stalled")


@dataclass(frozen=True)
class Launch:
    """A stream to run on raw memory.

    ``memory`` is not changed. ``insn_addr`` is a byte address; ``count`` instructions; ``tokens`` of the four queues.
    ``memory_end``: accesses at this byte or beyond are answered with an error (None: memory without an end). ``error``:
    an error to inject. ``stalls``: seed of random stalls on every channel, and of read beats of different ids
    interleaved; None for the memory of docs/timing-model.md.
    ``reset_at``: the cycle in which to reset the machine, after which the launch restarts. ``most_cycles``: abort after
    so many. ``trace``: record the cycles of each instruction. ``wave``: a waveform file; its suffix gives the format.
    """

    insn_addr: int
    count: int
    memory: PagedMemory
    tokens: tuple[int, int, int, int] = (0, 0, 0, 0)
    memory_end: int | None = None
    error: BusError | None = None
    stalls: int | None = None
    reset_at: int | None = None
    most_cycles: int = 1 << 40
    trace: bool = True
    wave: str | None = None


@dataclass(frozen=True, eq=False)
class Trace:
    """One entry for each instruction, in the order of the stream: arrays (N,) int64, −1 for what has not happened.

    ``unit``: the unit it was dispatched to (0 load, 1 compute, 2 store); ``dispatch``, ``dispatch_cause``,
    ``dispatch_stalled``: the cycle of its dispatch, and why and how long fetch stalled before it; ``start``, ``end``,
    ``cause``, ``stalled``, ``waited``: as docs/timing-model.md defines them, causes by number.
    """

    unit: Ints
    dispatch: Ints
    dispatch_cause: Ints
    dispatch_stalled: Ints
    start: Ints
    end: Ints
    cause: Ints
    stalled: Ints
    waited: Ints

    @classmethod
    def blank(cls, count: int) -> "Trace":
        """A trace in which nothing has happened."""
        columns = {name: np.full(count, -1, np.int64) for name in (*FETCH_COLUMNS, *UNIT_COLUMNS)}
        return cls(**columns)


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a launch.

    ``cycles``: of the launch, from the machine's own counter; after a fault, the cycle in which it was detected.
    ``fault``: why it stopped, NONE when the launch has ended. ``memory`` afterwards. ``tokens``: counts afterwards.
    ``units``: for load, compute, store and fetch, the machine's counters: ``busy``, and cycles by name of the cause.
    ``operations``: executed micro-ops: "gemm", "reset", "rescale", and ALU operations by name. ``bytes_read`` by
    memory type, and of the instruction stream ("instructions"); ``bytes_written``; ``bursts`` and ``beats`` of "read"
    and "write". ``interleaved``: read beats that follow a beat of another, incomplete burst; 0 without ``stalls``.
    """

    cycles: int
    fault: FaultCode
    memory: PagedMemory
    tokens: tuple[int, int, int, int]
    units: Mapping[str, Mapping[str, int]]
    operations: Mapping[str, int]
    bytes_read: Mapping[str, int]
    bytes_written: int
    bursts: Mapping[str, int]
    beats: Mapping[str, int]
    interleaved: int
    trace: Trace | None
    notes: Mapping[str, Any] = field(default_factory=dict)


class BrokenRunError(AssertionError):
    """The RTL broke a rule of its bus or did not end the launch: a bug of Lathe, not an error of the user."""
