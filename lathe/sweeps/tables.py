"""The table of a sweep: its columns, its rows as flat values, and CSV that grows by a row at a time."""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from lathe.configs.atomic import FileError, check_writable, unwritable, write_text
from lathe.configs.validate_config import all_keys
from lathe.sweeps.machines import OWN_KEYS
from lathe.sweeps.measurement import NUMBERS, Row
from lathe.sweeps.specification import Point, Sweep

WORKLOAD, BASE, STATUS, REASON, SECONDS = "workload", "base", "status", "reason", "run_seconds"
"""Columns beside keys and numbers. What depends on the run has "second" in its name."""
TAKEN = frozenset((WORKLOAD, BASE, STATUS, REASON, SECONDS, *NUMBERS, *all_keys(), *OWN_KEYS))


def column_of(parameter: str) -> str:
    """The column of a workload's parameter: its name, unless other columns have that, such as a machine's batch."""
    return f"{WORKLOAD}.{parameter}" if parameter in TAKEN else parameter


def point_columns(sweep: Sweep) -> list[str]:
    """The columns that name a point."""
    return [WORKLOAD, *map(column_of, sweep.parameter_keys), BASE, *sweep.machine.keys]


def columns_of(sweep: Sweep) -> list[str]:
    """The columns of the table."""
    return [*point_columns(sweep), STATUS, *(sweep.metrics or NUMBERS), REASON]


def values_of_point(point: Point) -> dict[str, object]:
    """A point by column."""
    parameters = {column_of(name): value for name, value in point.parameters.items()}
    return {WORKLOAD: point.workload, **parameters, BASE: point.base, **point.changes}


def workload_of(row: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """What a row has measured: its columns in front of the machine's."""
    names = list(row)
    return tuple((name, row[name]) for name in names[: names.index(BASE)]) if BASE in row else ()


def values_of(row: Row, metrics: tuple[str, ...] = ()) -> dict[str, object]:
    """A row by column; what it does not have is missing. ``metrics`` chooses among the numbers."""
    numbers = {name: value for name, value in row.numbers.items() if not metrics or name in metrics}
    return {**values_of_point(row.point), STATUS: row.status, **numbers, REASON: row.reason}


def csv_lines(columns: Iterable[str], rows: Iterable[Mapping[str, object]], *, head: bool = True) -> str:
    """Rows as CSV (RFC 4180 with plain line ends)."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(columns), restval="", lineterminator="\n")
    if head:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def csv_text(sweep: Sweep, rows: Iterable[Row]) -> str:
    """The table of a sweep as CSV, one line for each row."""
    return csv_lines(columns_of(sweep), (values_of(row, sweep.metrics) for row in rows))


class GrowingCsv:
    """A CSV file with a line for each row as soon as there is one; when all are there, in the order of the points."""

    def __init__(self, sweep: Sweep, path: Path) -> None:
        check_writable(path)
        self.sweep, self.path = sweep, path
        self.file: TextIO | None = None
        self.rows: dict[int, Row] = {}

    def __enter__(self) -> Self:
        return self

    def add(self, place: int, row: Row) -> None:
        """Write a row, and before the first one the columns. Raises FileError."""
        self.rows[place] = row
        try:
            if self.file is None:
                self.file = self.path.open("w", encoding="utf-8", newline="")
                self.file.write(csv_lines(columns_of(self.sweep), ()))
            self.file.write(csv_lines(columns_of(self.sweep), [values_of(row, self.sweep.metrics)], head=False))
            self.file.flush()
        except OSError as error:
            raise self._cut(error) from error

    def _cut(self, error: OSError) -> FileError:
        """The error of a table that cannot grow; of the first row, that it cannot be written at all."""
        if len(self.rows) <= 1:
            return unwritable(self.path, error)
        return FileError(
            f"The output file {str(self.path)!r} must have room for all rows, and answers {error.strerror!r}. What was "
            "measured before stands in it, perhaps with a part of the next row; make room, and begin anew, or name a "
            "store (.db), with which the same command goes on."
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.file is not None:
            try:
                self.file.close()
            except OSError as failure:  # what could not be written is tried once more
                if kind is None:
                    raise unwritable(self.path, failure) from failure
        if kind is None and (not self.path.exists() or self.path.is_file()):
            self._put_in_order()

    def _put_in_order(self) -> None:
        text = csv_text(self.sweep, (self.rows[place] for place in sorted(self.rows)))
        try:
            write_text(self.path, text)
        except FileError as error:
            if self.file is None:
                raise
            raise FileError(
                f"The folder of output file {str(self.path)!r} must have room for a second copy while its rows are put "
                f"in order, of {len(text.encode())} bytes, and has not. All rows stand in the file, in the order in "
                "which they came."
            ) from error
