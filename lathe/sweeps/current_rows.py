"""Which rows of a store stand for their points now: of several with one name, those that a sweep has named last.

A row is known by the content of its files, by its options and by its point, and a store keeps what was measured of
other contents and options: files may be set back. Two such rows look alike where they are listed, and a front over both
would be one of no machine.
"""

from collections.abc import Iterable, Sequence

from lathe.sweeps.measurement import NUMBERS
from lathe.sweeps.store import StoredRow
from lathe.sweeps.tables import REASON, STATUS

NO_NAMES = frozenset((*NUMBERS, STATUS, REASON))


def present_rows(rows: Iterable[StoredRow]) -> list[StoredRow]:
    """The rows of which no other of the same name was named by a later sweep, in their order."""
    named = [(_name(row), row) for row in rows]
    last: dict[frozenset[tuple[str, str]], int] = {}
    for name, row in named:
        last[name] = max(row.run, last.get(name, 0))
    return [row for name, row in named if row.run == last[name]]


def left_out(rows: Sequence[StoredRow], present: Sequence[StoredRow]) -> str:
    """What is said of rows that are not listed; "" where all are."""
    count = len(rows) - len(present)
    what = "row of a file or an option" if count == 1 else "rows of files or options"
    return f"{count} {what} as they were before" if count else ""


def _name(row: StoredRow) -> frozenset[tuple[str, str]]:
    """A row's workload, parameters, machine and what was changed of it."""
    return frozenset((key, repr(value)) for key, value in row.columns.items() if key not in NO_NAMES)
