"""Runs a whole sweep into a store or a CSV file, and resumes from the rows of a store."""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from lathe.sweeps.cluster import check_cluster
from lathe.sweeps.execution import ExecutionOptions, options_of, run_sweep
from lathe.sweeps.hardware import check_hardware
from lathe.sweeps.keys import changed_meanwhile, measuring_sources, point_key
from lathe.sweeps.match_grid import matching_indices
from lathe.sweeps.measurement import CHANGED, METRICS, OK, RETRIED, Options, Row
from lathe.sweeps.search import check_packages, run_search
from lathe.sweeps.specification import Point, Sweep
from lathe.sweeps.store import Store, StoredRow, is_store, writing_store
from lathe.sweeps.tables import SECONDS, GrowingCsv, values_of, workload_of

Watch: TypeAlias = Callable[[int, Row], None]
"""Called with the grid index and row of each point as it is measured."""

Rows: TypeAlias = Generator[tuple[int, Row], None, None]


def run_whole(
    sweep: Sweep, output: Path | None, running: ExecutionOptions, *, check: bool = False, watch: Watch = lambda *_: None
) -> dict[int, Row]:
    """Measure a sweep, into a store or a CSV file (``is_store``) if ``output`` is given; returns rows by grid index.

    Of a store that has rows of the sweep, only missing and lost points are measured. Each row is written as soon as it
    is measured, so that none is lost if the process is killed. Raises SweepError and FileError.
    """
    check_packages(sweep)
    if sweep.hardware is not None:
        check_hardware(sweep.hardware)
    if running.cluster is not None:
        check_cluster(running.cluster, options_of(sweep, check))
    rows: dict[int, Row] = {}
    with ExitStack() as stack:
        write: Watch = lambda *_: None  # noqa: E731 - one of three
        stored: dict[int, Row] = {}
        store: _SweepStore | None = None
        if output is not None and is_store(output):
            store = _SweepStore(stack.enter_context(writing_store(output)), sweep, check)
            write, stored = store.write, store.stored()
        elif output is not None:
            write = stack.enter_context(GrowingCsv(sweep, output)).add
        for index, row in stored.items():
            rows[index] = row
            watch(index, row)
        with closing(_measured(sweep, stored, running, check, keyed=store is not None)) as results:
            for index, measured in results:
                row = measured if store is None else store.checked(measured)
                write(index, row)
                rows[index] = row
                watch(index, row)
    return {index: rows[index] for index in sorted(rows)}


def _measured(sweep: Sweep, stored: Mapping[int, Row], running: ExecutionOptions, check: bool, *, keyed: bool) -> Rows:
    if sweep.search is None:
        yield from run_sweep(sweep, check=check, running=running, left_out=lambda at, _: at in stored, keyed=keyed)
        return
    known = {index: row.numbers if row.status == OK else None for index, row in stored.items()}
    yield from run_search(sweep, options_of(sweep, check, keyed=keyed), running, known)


class _SweepStore:
    """The rows of one sweep in a store: writes new ones, and finds those that were measured before."""

    def __init__(self, store: Store, sweep: Sweep, check: bool) -> None:
        self.store, self.sweep = store, sweep
        self.options: Options = options_of(sweep, check)
        self.sources = measuring_sources(sweep.hardware)
        self.run = store.next_run()
        self.first_indices: dict[str, int] = {}
        """The first grid index of each stored point: points of several workloads may be equal."""
        for each in range(len(sweep.workloads)):  # raises for points without a key before anything is measured
            self.key(sweep.point(sweep.first_index(each)))

    def stored(self) -> dict[int, Row]:
        """The rows of the sweep that were measured by the same sources and need no retry, by grid index."""
        usable = {
            row.point: row for row in self.store.rows() if row.sources == self.sources and row.status not in RETRIED
        }
        if not usable:
            return {}
        indices = self.sweep.indices()
        if self.sweep.search is not None:  # the grid may be too large to enumerate
            matches = {index for row in usable.values() for index in matching_indices(self.sweep, row.columns)}
            indices = iter(sorted(index for index in matches if self.sweep.broken(self.sweep.point(index)) is None))
        points = ((index, self.sweep.point(index)) for index in indices)
        keyed = ((index, point, self.key(point)) for index, point in points)
        rows, used = {}, list[str]()
        for index, point, key in keyed:
            if key not in usable:
                continue
            rows[index] = _row_of(point, usable[key])
            used.append(key)
            if key not in self.first_indices and usable[key].place != index:  # the grid has changed
                self.store.write(replace(usable[key], place=index))
            self.first_indices.setdefault(key, index)
        self.store.mark_used(used, self.run)
        return rows

    def checked(self, row: Row) -> Row:
        """The row or, if the point's files changed while it was measured, a row of status "files changed"."""
        if row.key in ("", self.key(row.point)):
            return row
        return Row(row.point, CHANGED, changed_meanwhile(row.point), seconds=row.seconds)

    def write(self, index: int, row: Row) -> None:
        """Write a row."""
        key, columns = self.key(row.point), values_of(row)
        index = self.first_indices[key] = min(index, self.first_indices.get(key, index))
        seconds = round(row.seconds, 6)
        stored = StoredRow(key, index, self.sources, row.status, seconds, columns, row.layers, self.run)
        self.store.write(stored)

    def key(self, point: Point) -> str:
        """The key of a point."""
        return point_key(point, self.options)


def _row_of(point: Point, stored: StoredRow) -> Row:
    numbers = {name: value for name, value in stored.columns.items() if name in METRICS}
    reason = str(stored.columns.get("reason", ""))
    return Row(point, stored.status, reason, numbers, stored.seconds, stored.layers)


def flat_rows(stored: Iterable[StoredRow]) -> list[dict[str, Any]]:
    """Rows of a store as dictionaries of plain values, all with the same keys; missing values are None."""
    rows = [{**row.columns, SECONDS: row.seconds} for row in stored]
    keys = dict.fromkeys(key for row in rows for key in row)
    of_workloads = dict.fromkeys(name for row in rows for name, _ in workload_of(row))
    leading = [
        *of_workloads,
        *(key for key in keys if key not in (*of_workloads, *METRICS, "status", "reason", SECONDS)),
    ]
    numbers = [name for name in METRICS if name in keys]
    order = [*leading, *(["status", *numbers, "reason", SECONDS] if rows else [])]
    return [{key: row.get(key) for key in order} for row in rows]
