"""The table of a sweep: its columns, its rows as flat values, and CSV that grows by a row at a time."""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from lathe.configs.atomic import check_writable, unwritable, write_text
from lathe.sweeps.measurement import NUMBERS, Row
from lathe.sweeps.specification import Sweep


def columns_of(sweep: Sweep) -> list[str]:
    """The columns of the table."""
    numbers = sweep.metrics or NUMBERS
    return ["workload", *sweep.parameter_keys, "base", *sweep.machine.keys, "status", *numbers, "reason"]


def values_of(row: Row, metrics: tuple[str, ...] = ()) -> dict[str, object]:
    """A row by column; what it does not have is missing. ``metrics`` chooses among the numbers."""
    point = row.point
    numbers = {name: value for name, value in row.numbers.items() if not metrics or name in metrics}
    return {
        "workload": point.workload,
        **point.parameters,
        "base": point.base,
        **point.changes,
        "status": row.status,
        **numbers,
        "reason": row.reason,
    }


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
            raise unwritable(self.path, error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.file is not None:
            self.file.close()
        if kind is None and (not self.path.exists() or self.path.is_file()):
            write_text(self.path, csv_text(self.sweep, (self.rows[place] for place in sorted(self.rows))))
