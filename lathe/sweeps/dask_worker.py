"""What a worker of a Dask cluster does for a sweep: it has a process measure each point, as a driver does.

So a point that takes too long can be ended, and one that ends its process takes the worker and its other points with it
no more than it would the driver. Each thread of the worker has one process for each sweep, which stays for the sweep's
next point, until the driver dismisses it or is not heard of for long.
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
"""Seconds after which a process without a task ends; the driver may have been killed."""
REMEDY = "Start fewer Dask workers on each machine."


@dataclass(eq=False)
class _WorkerState:
    """The process of one sweep on one thread."""

    crew: WorkerPool
    busy: Any = field(default_factory=threading.Lock)
    timer: threading.Timer | None = None

    def end(self) -> None:
        """End the process, unless it measures."""
        if self.busy.acquire(blocking=False):
            try:
                self.crew.end()
            finally:
                self.busy.release()


_LOCK = threading.Lock()
_KEPT: dict[tuple[str, int], _WorkerState] = {}
_DISMISSED: set[str] = set()


def measure_there(sweep: str, content: tuple[Point, Options], timeout: float | None, retries: int) -> Row:
    """The row of a point with its options, measured by this thread's process of the sweep of that name."""
    kept = _kept(sweep, timeout, retries)
    with kept.busy:
        if kept.timer is not None:
            kept.timer.cancel()
        try:
            return row_of(content[0], kept.crew.result(content), REMEDY)
        finally:
            kept.timer = threading.Timer(IDLE, kept.end)
            kept.timer.daemon = True
            kept.timer.start()


def _kept(sweep: str, timeout: float | None, retries: int) -> _WorkerState:
    with _LOCK:
        if sweep in _DISMISSED:
            raise SweepError("A point of a sweep must be measured before it has ended, not after.")
        key = sweep, threading.get_ident()
        if key not in _KEPT:
            _KEPT[key] = _WorkerState(WorkerPool(measure_content, 1, timeout, retries))
        return _KEPT[key]


def dismiss(sweep: str) -> None:
    """End all processes of a sweep here, those too that measure: nobody wants their rows."""
    with _LOCK:
        _DISMISSED.add(sweep)
        over = [_KEPT.pop(key) for key in list(_KEPT) if key[0] == sweep]
    for kept in over:
        kept.crew.stop()
        if kept.timer is not None:
            kept.timer.cancel()
        kept.end()


def _dismiss_all() -> None:
    """Before this worker ends by itself: multiprocessing waits for all processes then, and these wait for it."""
    for sweep in {sweep for sweep, _ in _KEPT}:
        dismiss(sweep)


Finalize(None, _dismiss_all, exitpriority=10)
