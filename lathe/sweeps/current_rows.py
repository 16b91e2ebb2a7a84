"""Selects the current rows of a store: of rows with equal columns, those that the latest sweep has used.

The key of a row covers the content of its point's files and its options, and a store keeps the rows of earlier contents
and options, in case they are restored. Such rows have the same columns as current ones, and a Pareto front over both
would describe no machine.
"""

from collections.abc import Iterable, Sequence

from lathe.sweeps.measurement import METRICS
from lathe.sweeps.store import StoredRow
from lathe.sweeps.tables import REASON, STATUS

RESULTS = frozenset((*METRICS, STATUS, REASON))


def current_rows(rows: Iterable[StoredRow]) -> list[StoredRow]:
    """The rows, in their order, without those with the same point columns as a row that a later sweep has used."""
    described = [(_point(row), row) for row in rows]
    last: dict[frozenset[tuple[str, str]], int] = {}
    for point, row in described:
        last[point] = max(row.run, last.get(point, 0))
    return [row for point, row in described if row.run == last[point]]


def outdated_text(rows: Sequence[StoredRow], present: Sequence[StoredRow]) -> str:
    """A text on the rows that are not current; "" if all are."""
    count = len(rows) - len(present)
    return f"{count} outdated {'row' if count == 1 else 'rows'} of earlier files or options" if count else ""


def _point(row: StoredRow) -> frozenset[tuple[str, str]]:
    """A row's workload with its parameters, and base machine with its changes."""
    return frozenset((key, repr(value)) for key, value in row.columns.items() if key not in RESULTS)
