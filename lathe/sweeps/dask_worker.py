"""The part of a sweep that runs on a Dask worker: measures each point in a subprocess, as the driver does locally.

So a point that takes too long can be killed, and a point that kills its process does not kill the worker. Each thread
of the worker has one subprocess per sweep, reused for the next point until the driver dismisses it or it has been idle
for long.
"""

import threading
from dataclasses import dataclass, field
from multiprocessing.util import Finalize
from typing import Any

from lathe.sweeps.errors import SweepError
from lathe.sweeps.keys import measure_content
from lathe.sweeps.measurement import Options, Row, row_of
from lathe.sweeps.specification import Point
from lathe.sweeps.workers import WorkerPool

IDLE = 600.0
"""Seconds after which an idle process ends, in case the driver was killed."""
REMEDY = "Start fewer Dask workers on each machine."


@dataclass(eq=False)
class _WorkerState:
    """The process of one sweep on one thread."""

    pool: WorkerPool
    busy: Any = field(default_factory=threading.Lock)
    timer: threading.Timer | None = None

    def end(self) -> None:
        """End the process, unless it is measuring."""
        if self.busy.acquire(blocking=False):
            try:
                self.pool.end()
            finally:
                self.busy.release()


_LOCK = threading.Lock()
_STATES: dict[tuple[str, int], _WorkerState] = {}
_DISMISSED: set[str] = set()


def measure_on_worker(sweep: str, content: tuple[Point, Options], timeout: float | None, retries: int) -> Row:
    """The row of a point with its options, measured by this thread's process for the named sweep."""
    state = _state(sweep, timeout, retries)
    with state.busy:
        if state.timer is not None:
            state.timer.cancel()
        try:
            return row_of(content[0], state.pool.result(content), REMEDY)
        finally:
            state.timer = threading.Timer(IDLE, state.end)
            state.timer.daemon = True
            state.timer.start()


def _state(sweep: str, timeout: float | None, retries: int) -> _WorkerState:
    with _LOCK:
        if sweep in _DISMISSED:
            raise SweepError("Cannot measure a point: its sweep has ended.")
        key = sweep, threading.get_ident()
        if key not in _STATES:
            _STATES[key] = _WorkerState(WorkerPool(measure_content, 1, timeout, retries))
        return _STATES[key]


def dismiss(sweep: str) -> None:
    """End all processes of a sweep on this worker, busy ones too: their rows are no longer needed."""
    with _LOCK:
        _DISMISSED.add(sweep)
        dismissed = [_STATES.pop(key) for key in list(_STATES) if key[0] == sweep]
    for state in dismissed:
        state.pool.stop()
        if state.timer is not None:
            state.timer.cancel()
        state.end()


def _dismiss_all() -> None:
    """End all processes before the worker exits: multiprocessing joins them at exit, and they wait for the worker."""
    for sweep in {sweep for sweep, _ in _STATES}:
        dismiss(sweep)


Finalize(None, _dismiss_all, exitpriority=10)
