"""A whole sweep: from its file to a store or a table, going on where an earlier one ended."""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from lathe.sweeps.cluster import check_cluster
from lathe.sweeps.execution import Running, options_of, run_sweep
from lathe.sweeps.hardware import check_hardware
from lathe.sweeps.keys import changed_meanwhile, measuring_sources, point_key
from lathe.sweeps.match_grid import places_like
from lathe.sweeps.measurement import AGAIN, CHANGED, NUMBERS, OK, Options, Row
from lathe.sweeps.search import needed, run_search
from lathe.sweeps.specification import Point, Sweep
from lathe.sweeps.store import Store, StoredRow, is_store, writing_store
from lathe.sweeps.tables import SECONDS, GrowingCsv, values_of, workload_of

Watch: TypeAlias = Callable[[int, Row], None]
"""Is told of every row as it comes, by its place."""

Rows: TypeAlias = Generator[tuple[int, Row], None, None]


def run_whole(
    sweep: Sweep, output: Path | None, running: Running, *, check: bool = False, watch: Watch = lambda *_: None
) -> dict[int, Row]:
    """Measure a sweep into a store or a CSV file (``is_store``), if one is named; rows by their places.

    A store that has rows of the sweep keeps them: only what is missing is measured, and what was lost. Rows are written
    as they come, so that whoever ends this loses none. Raises SweepError and FileError for what cannot be written.
    """
    needed(sweep)
    if sweep.hardware is not None:
        check_hardware(sweep.hardware)
    if running.cluster is not None:
        check_cluster(running.cluster, options_of(sweep, check))
    rows: dict[int, Row] = {}
    with ExitStack() as stack:
        keep: Watch = lambda *_: None  # noqa: E731 - one of three
        kept: dict[int, Row] = {}
        keeper: _Keeper | None = None
        if output is not None and is_store(output):
            keeper = _Keeper(stack.enter_context(writing_store(output)), sweep, check)
            keep, kept = keeper.keep, keeper.kept()
        elif output is not None:
            keep = stack.enter_context(GrowingCsv(sweep, output)).add
        for place, row in kept.items():
            rows[place] = row
            watch(place, row)
        with closing(_measured(sweep, kept, running, check, keyed=keeper is not None)) as results:
            for place, found in results:
                row = found if keeper is None else keeper.checked(found)
                keep(place, row)
                rows[place] = row
                watch(place, row)
    return {place: rows[place] for place in sorted(rows)}


def _measured(sweep: Sweep, kept: Mapping[int, Row], running: Running, check: bool, *, keyed: bool) -> Rows:
    if sweep.search is None:
        yield from run_sweep(sweep, check=check, running=running, left_out=lambda place, _: place in kept, keyed=keyed)
        return
    known = {place: row.numbers if row.status == OK else None for place, row in kept.items()}
    yield from run_search(sweep, options_of(sweep, check, keyed=keyed), running, known)


class _Keeper:
    """Writes rows of a sweep to a store, and finds those that it has."""

    def __init__(self, store: Store, sweep: Sweep, check: bool) -> None:
        self.store, self.sweep = store, sweep
        self.options: Options = options_of(sweep, check)
        self.sources = measuring_sources(sweep.hardware)
        self.run = store.next_run()
        self.places: dict[str, int] = {}
        """The first place of each point that is there: points of several workloads may be the same."""
        for each in range(len(sweep.workloads)):  # what has no key is told before anything is measured
            self.key(sweep.point(sweep.first_place(each)))

    def kept(self) -> dict[int, Row]:
        """The rows of the sweep that these sources have measured and that are not lost, by their places."""
        found = {row.point: row for row in self.store.rows() if row.sources == self.sources and row.status not in AGAIN}
        if not found:
            return {}
        places = self.sweep.places()
        if self.sweep.search is not None:  # of a grid that may be large only what is there, wherever it lies now
            alike = {place for row in found.values() for place in places_like(self.sweep, row.columns)}
            places = iter(sorted(place for place in alike if self.sweep.broken(self.sweep.point(place)) is None))
        chosen = ((place, self.sweep.point(place)) for place in places)
        keyed = ((place, point, self.key(point)) for place, point in chosen)
        kept, named = {}, list[str]()
        for place, point, key in keyed:
            if key not in found:
                continue
            kept[place] = _row_of(point, found[key])
            named.append(key)
            if key not in self.places and found[key].place != place:  # of another sweep, or the same point's second
                self.store.write(replace(found[key], place=place))
            self.places.setdefault(key, place)
        self.store.name(named, self.run)
        return kept

    def checked(self, row: Row) -> Row:
        """The row, or one that says that what it was measured of has changed meanwhile: it may be of either."""
        if row.key in ("", self.key(row.point)):
            return row
        return Row(row.point, CHANGED, changed_meanwhile(row.point), seconds=row.seconds)

    def keep(self, place: int, row: Row) -> None:
        """Write a row."""
        key, columns = self.key(row.point), values_of(row)
        place = self.places[key] = min(place, self.places.get(key, place))
        seconds = round(row.seconds, 6)
        stored = StoredRow(key, place, self.sources, row.status, seconds, columns, row.layers, self.run)
        self.store.write(stored)

    def key(self, point: Point) -> str:
        """The key of a point."""
        return point_key(point, self.options)


def _row_of(point: Point, stored: StoredRow) -> Row:
    numbers = {name: value for name, value in stored.columns.items() if name in NUMBERS}
    reason = str(stored.columns.get("reason", ""))
    return Row(point, stored.status, reason, numbers, stored.seconds, stored.layers)


def flat_rows(stored: Iterable[StoredRow]) -> list[dict[str, Any]]:
    """Rows of a store as flat values, all with the same keys; what a row does not have is None."""
    rows = [{**row.columns, SECONDS: row.seconds} for row in stored]
    keys = dict.fromkeys(key for row in rows for key in row)
    of_workloads = dict.fromkeys(name for row in rows for name, _ in workload_of(row))
    leading = [
        *of_workloads,
        *(key for key in keys if key not in (*of_workloads, *NUMBERS, "status", "reason", SECONDS)),
    ]
    numbers = [name for name in NUMBERS if name in keys]
    order = [*leading, *(["status", *numbers, "reason", SECONDS] if rows else [])]
    return [{key: row.get(key) for key in order} for row in rows]
