"""Running a sweep on all cores, and its table."""

import csv
import io
import multiprocessing
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path

from lathe.configs.atomic import write_text
from lathe.sweeps.errors import SweepError
from lathe.sweeps.measurement import NUMBERS, Row, measure
from lathe.sweeps.specification import Sweep

# One thread of BLAS for each process: the processes already take all cores, and small products want no more.
BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_sweep(sweep: Sweep, *, jobs: int | None = None, check: bool = False) -> Iterator[tuple[int, Row]]:
    """Measure every point on `jobs` processes (one for each core unless given); yields places and rows as they come.

    With one job everything runs in this process. Raises :class:`SweepError` when a process dies, mostly for want of
    memory.
    """
    points = sweep.points()
    count = min(jobs or available_cores(), len(points))
    if count <= 1:
        yield from ((place, measure(point, check)) for place, point in enumerate(points))
        return
    before = {name: os.environ.get(name) for name in BLAS_VARIABLES}
    os.environ.update(dict.fromkeys(BLAS_VARIABLES, "1"))
    try:
        # spawn: the same on every system, and no copy of this process's threads.
        with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as pool:
            places = {pool.submit(partial(measure, check=check), point): place for place, point in enumerate(points)}
            try:
                for future in as_completed(places):
                    yield places[future], future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    except BrokenProcessPool:
        raise SweepError(
            f"The sweep must have memory for {count} processes, and one of them ended unexpectedly. "
            "Use fewer with --jobs, or smaller shapes."
        ) from None
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def columns_of(sweep: Sweep) -> list[str]:
    """The columns of the table."""
    return ["workload", *sweep.parameter_keys, "base", *sweep.machine.keys, "status", *NUMBERS, "reason"]


def values_of(row: Row) -> dict[str, object]:
    """A row by column; what it does not have is missing."""
    point = row.point
    numbers = dict(row.numbers)
    return {
        "workload": point.workload,
        **point.parameters,
        "base": point.base,
        **point.changes,
        "status": row.status,
        **numbers,
        "reason": row.reason,
    }


def csv_text(sweep: Sweep, rows: Iterable[Row]) -> str:
    """The table as CSV (RFC 4180 with plain line ends), one line for each row."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns_of(sweep), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(values_of(row) for row in rows)
    return text.getvalue()


def write_csv(sweep: Sweep, rows: Iterable[Row], path: Path) -> None:
    """Write the table, whole or not at all."""
    write_text(path, csv_text(sweep, rows))
