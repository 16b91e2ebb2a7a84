"""The table of a sweep: its columns, rows as plain values, and a CSV file that is written row by row."""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from lathe.configs.atomic import FileError, check_writable, unwritable, write_text
from lathe.configs.validate_config import all_keys
from lathe.sweeps.machines import OWN_KEYS
from lathe.sweeps.measurement import METRICS, Row
from lathe.sweeps.specification import Point, Sweep

WORKLOAD, BASE, STATUS, REASON, SECONDS = "workload", "base", "status", "reason", "run_seconds"
"""Columns besides parameters and metrics. Names of values that differ from run to run contain "second"."""
TAKEN = frozenset((WORKLOAD, BASE, STATUS, REASON, SECONDS, *METRICS, *all_keys(), *OWN_KEYS))


def column_of(parameter: str) -> str:
    """The column of a workload's parameter: its name, with a prefix if it is that of another column such as batch."""
    return f"{WORKLOAD}.{parameter}" if parameter in TAKEN else parameter


def point_columns(sweep: Sweep) -> list[str]:
    """The columns that identify a point."""
    return [WORKLOAD, *map(column_of, sweep.parameter_keys), BASE, *sweep.machine.keys]


def columns_of(sweep: Sweep) -> list[str]:
    """The columns of a sweep's table."""
    return [*point_columns(sweep), STATUS, *(sweep.metrics or METRICS), REASON]


def values_of_point(point: Point) -> dict[str, object]:
    """The values of a point by column."""
    parameters = {column_of(name): value for name, value in point.parameters.items()}
    return {WORKLOAD: point.workload, **parameters, BASE: point.base, **point.changes}


def workload_of(row: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The workload of a row: its columns before those of the machine, with their values."""
    names = list(row)
    return tuple((name, row[name]) for name in names[: names.index(BASE)]) if BASE in row else ()


def values_of(row: Row, metrics: tuple[str, ...] = ()) -> dict[str, object]:
    """The values of a row by column, without missing ones; of the metrics only ``metrics``, or all if it is ()."""
    numbers = {name: value for name, value in row.numbers.items() if not metrics or name in metrics}
    return {**values_of_point(row.point), STATUS: row.status, **numbers, REASON: row.reason}


def csv_lines(columns: Iterable[str], rows: Iterable[Mapping[str, object]], *, head: bool = True) -> str:
    """Rows as CSV (RFC 4180, but with LF line endings)."""
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
    """Writes a CSV file row by row as points are measured; at the end, rewrites it in grid order."""

    def __init__(self, sweep: Sweep, path: Path) -> None:
        check_writable(path)
        self.sweep, self.path = sweep, path
        self.file: TextIO | None = None
        self.rows: dict[int, Row] = {}

    def __enter__(self) -> Self:
        return self

    def add(self, index: int, row: Row) -> None:
        """Write a row, preceded by the header if it is the first. Raises FileError."""
        self.rows[index] = row
        try:
            if self.file is None:
                self.file = self.path.open("w", encoding="utf-8", newline="")
                self.file.write(csv_lines(columns_of(self.sweep), ()))
            self.file.write(csv_lines(columns_of(self.sweep), [values_of(row, self.sweep.metrics)], head=False))
            self.file.flush()
        except OSError as error:
            raise self._write_error(error) from error

    def _write_error(self, error: OSError) -> FileError:
        """The error for a row that cannot be written."""
        if len(self.rows) <= 1:
            return unwritable(self.path, error)
        return FileError(
            f"Cannot add a row to output file {str(self.path)!r}: {error.strerror}. It has the rows measured before, "
            "perhaps with a part of the next one. Free some space and start again, or name a store (.db), with which "
            "the same command resumes."
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.file is not None:
            try:
                self.file.close()
            except OSError as failure:  # closing tries to write the rest of the buffer
                if kind is None:
                    raise unwritable(self.path, failure) from failure
        if kind is None and (not self.path.exists() or self.path.is_file()):
            self._sort()

    def _sort(self) -> None:
        text = csv_text(self.sweep, (self.rows[index] for index in sorted(self.rows)))
        try:
            write_text(self.path, text)
        except FileError as error:
            if self.file is None:
                raise
            raise FileError(
                f"Cannot sort the rows of output file {str(self.path)!r}: its folder has no space for a second copy, "
                f"of {len(text.encode())} bytes. The file has all rows, in the order in which they were measured."
            ) from error
