"""The store of a sweep: an SQLite file with a row for each point, written as soon as the point is measured.

Only the process that drives a sweep writes. It writes to a log first (WAL), so that whoever kills it loses no row that
was there, and that others may read meanwhile. Whose file it is, and of which version, stands in its first bytes, and is
looked at there: nothing but a store of this version or an earlier one is ever opened to be written to, and what SQLite
finds damaged is told of and left as it is.
"""

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from lathe.configs.atomic import check_writable
from lathe.configs.errors import shown
from lathe.sweeps.errors import SweepError
from lathe.sweeps.layers import Layers

APPLICATION = 0x4C545357  # "LTSW"
HEADER = b"SQLite format 3\0"
SUFFIXES = (".db", ".db3", ".sqlite", ".sqlite3")
"""What names of stores end with, in any case of letters."""
SECONDS = 10.0
"""How long a writer waits for another."""
PARTS = ("", "-wal", "-journal")
COPIES = 20
"""How often a store is copied that is written to meanwhile."""

MIGRATIONS = (
    # 1: rows by the content of their points, with the sources that measured them.
    """create table rows (
    point text primary key, place integer not null, sources text not null, status text not null, seconds real not null,
    content text not null
) without rowid""",
    # 2: readers want the points in the order of their sweep, of which a store may have thousands.
    "create index rows_by_place on rows (place)",
    # 3: what each layer of a point cost, which tables leave out and pages show.
    "alter table rows add column layers text not null default '{}'",
)
"""What makes a store of each version from one of the version before; the first makes it from an empty file."""
VERSION = len(MIGRATIONS)
COLUMNS = ("point", "place", "sources", "status", "seconds", "content")
"""Those of all versions; the last has those of layers, too."""


@dataclass(frozen=True)
class StoredRow:
    """A row: its point's key and place, the sources that measured it, its status, its seconds, columns and layers."""

    point: str
    place: int
    sources: str
    status: str
    seconds: float
    columns: Mapping[str, Any]
    layers: Layers = field(default_factory=dict)


class Store:
    """An open store. Made by :func:`writing_store` and :func:`reading_store`, which close it."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self.connection = path, connection

    def measured(self, sources: str, but: tuple[str, ...] = ()) -> set[str]:
        """The keys of the points that these sources have measured, without those of some statuses."""
        with _told(self.path):
            rows = self.connection.execute("select point, status from rows where sources = ?", (sources,)).fetchall()
        return {point for point, status in rows if status not in but}

    def write(self, row: StoredRow) -> None:
        """Keep a row, in the place of one that the same point has. Raises SweepError where it cannot be written."""
        content, layers = json.dumps(dict(row.columns)), json.dumps(dict(row.layers), separators=(",", ":"))
        values = (row.point, row.place, row.sources, row.status, row.seconds, content, layers)
        with _told(self.path):
            self.connection.execute("insert or replace into rows values (?, ?, ?, ?, ?, ?, ?)", values)

    def rows(self) -> list[StoredRow]:
        """All rows, in the order of their places."""
        with _told(self.path):
            found = self.connection.execute(
                "select point, place, sources, status, seconds, content, layers from rows order by place, point"
            ).fetchall()
        for row in found:
            if tuple(map(type, row[:5])) != (str, int, str, str, float):
                _refuse(self.path, f"whole, and is damaged: a row says {shown(row[:5])}")
        return [
            StoredRow(point, place, sources, status, seconds, self._columns(content), self._columns(layers))
            for point, place, sources, status, seconds, content, layers in found
        ]

    def _columns(self, content: Any) -> dict[str, Any]:
        """What a row's text says. Raises SweepError for another one than ``write`` writes."""
        try:
            columns = json.loads(content)
        except (ValueError, TypeError):
            columns = None
        if not isinstance(columns, dict):
            _refuse(self.path, f"whole, and is damaged: a row says {shown(content)}")
        return columns


def is_store(path: Path) -> bool:
    """Whether an output is a store rather than a table, by its suffix.

    Raises SweepError for a name of a table that a database has, which would be lost.
    """
    if path.suffix.lower() in SUFFIXES:
        return True
    try:
        with path.open("rb") as file:
            head = file.read(len(HEADER)) if path.is_file() else b""
    except OSError:
        head = b""
    if head == HEADER:
        raise SweepError(
            f"The output file {str(path)!r} must be a table that may be begun anew, not a database of SQLite. It was "
            f"left as it is; name another file, or a store, with one of the suffixes {', '.join(SUFFIXES)}.",
            file=path,
        )
    return False


@contextlib.contextmanager
def writing_store(path: Path) -> Iterator[Store]:
    """A store to write to, made where there is none. Raises SweepError for a file that is none, or damaged."""
    check_writable(path)
    if path.is_dir() or (path.exists() and not path.is_file()):
        _refuse(path, "a file, and is none")
    if path.exists() and not os.access(path, os.W_OK):
        _refuse(path, "a file that may be written to, and is not")
    if _holds_something(path):
        _check(path)
    with _told(path), contextlib.closing(_connected(f"{_uri(path)}?mode=rwc")) as connection:
        _migrate(connection)
        # The schema is in the file itself, not in its log: the first bytes say whose file it is from the beginning.
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = normal")
        yield Store(path, connection)


@contextlib.contextmanager
def reading_store(path: Path) -> Iterator[Store]:
    """A store to read from, which is not changed. Raises SweepError for a file that is none, or damaged."""
    if not os.path.isfile(path):
        _refuse(path, "one that there is, and is not")
    if not _holds_something(path):
        _refuse(path, "a store of a sweep, and is empty")
    version = _check(path)
    if version < VERSION or _has_journal(path) or not _log_can_be_read(path):
        with tempfile.TemporaryDirectory() as folder:  # brought to this version in a copy, its logs in it
            copied = _copied(path, Path(folder))
            with _told(path), contextlib.closing(_connected(f"{_uri(copied)}?mode=rw")) as connection:
                _migrate(connection)
                yield Store(path, connection)
        return
    # Without a log nobody writes, and nothing is made beside the file.
    mode = "mode=ro" if _has_log(path) else "mode=ro&immutable=1"
    with _told(path), contextlib.closing(_connected(f"{_uri(path)}?{mode}")) as connection:
        yield Store(path, connection)


def _connected(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, timeout=SECONDS, isolation_level=None, uri=True)


def _uri(path: Path) -> str:
    return path.absolute().as_uri()


def _migrate(connection: sqlite3.Connection) -> None:
    version = connection.execute("pragma user_version").fetchone()[0]
    if version == VERSION:
        return
    connection.execute("pragma journal_mode = delete")
    connection.execute("begin exclusive")
    version = connection.execute("pragma user_version").fetchone()[0]  # another may have been quicker
    for step in MIGRATIONS[version:]:
        connection.execute(step)
    connection.execute(f"pragma application_id = {APPLICATION}")
    connection.execute(f"pragma user_version = {VERSION}")
    connection.execute("commit")


def _holds_something(path: Path) -> bool:
    """Whether a file is there and not empty; an empty one is what is left of a store that was never begun."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _has_log(path: Path) -> bool:
    return Path(f"{path}-wal").exists()


def _log_can_be_read(path: Path) -> bool:
    """Whether a log, if there is one, can be read where it is: its index stands beside it, or may be made there."""
    return not _has_log(path) or Path(f"{path}-shm").exists() or os.access(path.absolute().parent, os.W_OK)


def _check(path: Path) -> int:
    """The version of a store. Raises SweepError for anything else; the file is only read."""
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except OSError as error:
        _refuse(path, f"one that can be read, and is not: {error.strerror}")
    if len(head) < 100 or not head.startswith(HEADER):
        _refuse(path, "a store of a sweep, and is no database of SQLite")
    version, application = int.from_bytes(head[60:64], "big"), int.from_bytes(head[68:72], "big")
    if application != APPLICATION:
        _refuse(path, f"a store of a sweep, and is another program's database (application {application:#x})")
    if version < 1:
        _refuse(path, f"of version 1 to {VERSION}, and is of version {version}: it is damaged")
    if version > VERSION:
        _refuse(path, f"of version {VERSION} or below, and is of version {version}, which a later Lathe has written")
    with tempfile.TemporaryDirectory() as folder:
        # A log is read with the file, which changes both: in a copy.
        looked_at = _copied(path, Path(folder)) if _has_log(path) or _has_journal(path) else path
        mode = "mode=ro&immutable=1" if looked_at == path else "mode=rw"
        try:
            with contextlib.closing(_connected(f"{_uri(looked_at)}?{mode}")) as connection:
                connection.text_factory = _readable  # what is damaged may name tables of any bytes
                found = connection.execute("pragma quick_check(1)").fetchone()[0]
                columns = [each[1] for each in connection.execute("pragma table_info(rows)")]
        except (sqlite3.Error, UnicodeDecodeError) as error:  # of a message that names what is damaged, the second
            found = str(error)
    if found == "ok" and columns != (wanted := [*COLUMNS, *(["layers"] if version == VERSION else [])]):
        found = f"its rows have the columns {', '.join(columns) or 'of no table'}, not {', '.join(wanted)}"
    if found != "ok":
        _refuse(path, f"whole, and is damaged: {' '.join(found.split())}")
    return version


def _readable(text: bytes) -> str:
    return text.decode(errors="replace")


def _has_journal(path: Path) -> bool:
    return Path(f"{path}-journal").exists()


def _copied(path: Path, folder: Path) -> Path:
    """A copy of a store with its logs, in a folder; copied again where a writer has changed it meanwhile."""
    copied = folder / path.name[:50]
    for _ in range(COPIES):
        before = _stamps(path)
        for part in PARTS:
            Path(f"{copied}{part}").unlink(missing_ok=True)
            with contextlib.suppress(FileNotFoundError):  # a log that has just been brought into the file
                shutil.copyfile(f"{path}{part}", f"{copied}{part}")
        if _stamps(path) == before:
            break
    return copied


def _stamps(path: Path) -> list[tuple[int, int]]:
    """What changes of the parts of a store when one is written to."""
    found = []
    for part in PARTS:
        with contextlib.suppress(OSError):
            stat = os.stat(f"{path}{part}")
            found.append((stat.st_mtime_ns, stat.st_size))
    return found


def _refuse(path: Path, contract: str) -> NoReturn:
    raise SweepError(
        f"The store {str(path)!r} must be {contract}. It was left as it is; name another file.", file=path
    ) from None


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """What SQLite cannot do inside is told in words."""
    try:
        yield
    except sqlite3.Error as error:
        raise SweepError(
            f"The store {str(path)!r} must be one that can be read and written, and is not: {error}. What was measured "
            "before is kept in it; make room, and the same command goes on.",
            file=path,
        ) from error
