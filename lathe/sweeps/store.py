"""The store of a sweep: an SQLite file with a row for each point, written as soon as the point is measured.

Only the driver of a sweep writes, in WAL mode, so that no written row is lost if it is killed, and other processes can
read meanwhile. Before a file is opened for writing, its header is checked: it must be a store of this or an earlier
version. A damaged store is reported and left unchanged.
"""

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping
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
"""File name suffixes of stores, case-insensitive."""
SECONDS = 10.0
"""Timeout for another writer's lock."""
PARTS = ("", "-wal", "-journal")
REMEDIES = {
    sqlite3.SQLITE_FULL: "free some space",
    sqlite3.SQLITE_IOERR: "free some space",
    sqlite3.SQLITE_NOMEM: "free some memory",
    sqlite3.SQLITE_BUSY: "let the other writer finish",
    sqlite3.SQLITE_LOCKED: "let the other writer finish",
    sqlite3.SQLITE_CANTOPEN: "free some space, or make its folder writable",
    sqlite3.SQLITE_READONLY: "make it writable",
    sqlite3.SQLITE_PERM: "make it writable",
}
"""The remedy for a result code of SQLite; all other codes mean that the file is damaged."""
COPIES = 20
"""How often copying a store is tried if a writer changes it meanwhile."""

MIGRATIONS = (
    # 1: rows by the key of their point, with the sources that measured them.
    """create table rows (
    point text primary key, place integer not null, sources text not null, status text not null, seconds real not null,
    content text not null
) without rowid""",
    # 2: an index to read points in grid order, of which a store may have thousands.
    "create index rows_by_place on rows (place)",
    # 3: per-layer results, which reports show.
    "alter table rows add column layers text not null default '{}'",
    # 4: the last sweep that used a row, since rows of earlier file contents stay in the store.
    "alter table rows add column run integer not null default 0",
)
"""The migration to each version from the one before; the first creates the tables in an empty file."""
VERSION = len(MIGRATIONS)


@dataclass(frozen=True)
class StoredRow:
    """A row: its point's key and grid index (``place``), the sources that measured it, status, time, columns, layers.

    ``run``: the number of the last sweep run that has used it, counted from 1 over all runs that wrote to the store.
    """

    point: str
    place: int
    sources: str
    status: str
    seconds: float
    columns: Mapping[str, Any]
    layers: Layers = field(default_factory=dict)
    run: int = 0


class Store:
    """An open store, from :func:`writing_store` or :func:`reading_store`, which close it."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self.connection = path, connection

    def measured(self, sources: str, but: tuple[str, ...] = ()) -> set[str]:
        """The keys of the points that these sources have measured, except rows with one of the statuses ``but``."""
        with _errors_explained(self.path):
            rows = self.connection.execute("select point, status from rows where sources = ?", (sources,)).fetchall()
        return {point for point, status in rows if status not in but}

    def write(self, row: StoredRow) -> None:
        """Write a row, and replace the earlier row of its point. Raises SweepError if it cannot be written."""
        content, layers = json.dumps(dict(row.columns)), json.dumps(dict(row.layers), separators=(",", ":"))
        values = (row.point, row.place, row.sources, row.status, row.seconds, content, layers, row.run)
        with _errors_explained(self.path):
            self.connection.execute("insert or replace into rows values (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def next_run(self) -> int:
        """The number of a new sweep run."""
        with _errors_explained(self.path):
            last: int = self.connection.execute("select max(run) from rows").fetchone()[0] or 0
        return last + 1

    def mark_used(self, points: Iterable[str], run: int) -> None:
        """Record that a sweep run has used the rows of these points. Raises SweepError if that cannot be written."""
        with _errors_explained(self.path):
            self.connection.execute("begin immediate")
            self.connection.executemany("update rows set run = ? where point = ?", ((run, each) for each in points))
            self.connection.execute("commit")

    def rows(self) -> list[StoredRow]:
        """All rows, in grid order."""
        with _errors_explained(self.path):
            rows = self.connection.execute(
                "select point, place, sources, status, seconds, run, content, layers from rows order by place, point"
            ).fetchall()
        for row in rows:
            if tuple(map(type, row[:6])) != (str, int, str, str, float, int):
                _refuse(self.path, f"it is damaged, a row contains {shown(row[:6])}")
        return [
            StoredRow(point, place, sources, status, seconds, self._columns(content), self._columns(layers), run)
            for point, place, sources, status, seconds, run, content, layers in rows
        ]

    def _columns(self, content: Any) -> dict[str, Any]:
        """Decode a column written by ``write``. Raises SweepError for any other content."""
        try:
            columns = json.loads(content)
        except (ValueError, TypeError):
            columns = None
        if not isinstance(columns, dict):
            _refuse(self.path, f"it is damaged, a row contains {shown(content)}")
        return columns


def is_store(path: Path) -> bool:
    """Whether an output file is a store rather than a CSV file, by its suffix.

    Raises SweepError if the file is to be overwritten with CSV but is an SQLite database.
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
            f"Cannot write CSV to {str(path)!r}: it is an SQLite database. It was left unchanged; name another file, "
            f"or a store, with one of the suffixes {', '.join(SUFFIXES)}.",
            file=path,
        )
    return False


@contextlib.contextmanager
def writing_store(path: Path) -> Iterator[Store]:
    """A store to write to, created if it is missing. Raises SweepError for a file that is no store, or damaged."""
    check_writable(path)
    if path.is_dir() or (path.exists() and not path.is_file()):
        _refuse(path, "it is not a regular file")
    if path.exists() and not os.access(path, os.W_OK):
        _refuse(path, "it is not writable")
    if _is_nonempty(path):
        _check(path)
    with _errors_explained(path):
        connection = _connected(f"{_uri(path)}?mode=rwc")
    with contextlib.closing(connection):
        with _errors_explained(path):
            _migrate(connection, path)
            # WAL starts after the migration, so that the schema and the header are in the file itself, not in its log.
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = normal")
        yield Store(path, connection)


@contextlib.contextmanager
def reading_store(path: Path) -> Iterator[Store]:
    """A store to read from, which is not changed. Raises SweepError for a file that is no store, or damaged."""
    if not os.path.isfile(path):
        _refuse(path, "there is no such file")
    if not _is_nonempty(path):
        _refuse(path, "it is empty")
    version = _check(path)
    if version == VERSION and not _has_journal(path):
        connection = _read_in_place(path)
        if connection is not None:
            with contextlib.closing(connection):
                yield Store(path, connection)
            return
    with _temporary_folder(path) as folder:  # migrated, and merged with its log, in a copy
        with _errors_explained(path):
            connection = _connected(f"{_uri(_copied(path, folder))}?mode=rw")
        with contextlib.closing(connection):
            with _errors_explained(path):
                _migrate(connection, path)
            yield Store(path, connection)


def _read_in_place(path: Path) -> sqlite3.Connection | None:
    """Open a store without copying it; None if the index of its log is missing and cannot be created.

    Without a log there is no writer, and the file is opened as immutable, so that SQLite creates no files next to it.
    An empty log belongs to a writer that has just started, or that had no space: the file is complete then, too.
    """
    modes = ["mode=ro"] if _is_log_readable(path) and Path(f"{path}-wal").exists() else []
    for mode in (*modes, *([] if _has_log(path) else ["mode=ro&immutable=1"])):
        with contextlib.suppress(sqlite3.Error):
            connection = _connected(f"{_uri(path)}?{mode}")
            try:
                connection.execute("select point from rows limit 1").fetchone()
            except sqlite3.Error:
                connection.close()
                continue
            return connection
    return None


def _connected(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, timeout=SECONDS, isolation_level=None, uri=True)


def _uri(path: Path) -> str:
    return path.absolute().as_uri()


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if _version_of(connection)[0] == VERSION:
        return
    connection.execute("pragma journal_mode = delete")
    connection.execute("begin exclusive")
    version, application = _version_of(connection)  # another process may have migrated it meanwhile
    if version:
        _check_version(path, version, application)
    for step in MIGRATIONS[version:]:
        connection.execute(step)
    connection.execute(f"pragma application_id = {APPLICATION}")
    connection.execute(f"pragma user_version = {VERSION}")
    connection.execute("commit")


def _is_nonempty(path: Path) -> bool:
    """Whether a file exists and is not empty; an empty one is a store whose creation failed."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _has_log(path: Path) -> bool:
    """Whether there is a non-empty log."""
    return _is_nonempty(Path(f"{path}-wal"))


def _is_log_readable(path: Path) -> bool:
    """Whether the log, if there is one, can be read without a copy: its index exists, or can be created."""
    return not _has_log(path) or Path(f"{path}-shm").exists() or os.access(path.absolute().parent, os.W_OK)


def _check(path: Path) -> int:
    """The version of a store. Raises SweepError for anything else; the file is only read."""
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except OSError as error:
        _refuse(path, f"it cannot be read, {error.strerror}")
    if len(head) < 100 or not head.startswith(HEADER):
        _refuse(path, "it is not an SQLite database")
    version, application = int.from_bytes(head[60:64], "big"), int.from_bytes(head[68:72], "big")
    _check_version(path, version, application)
    with contextlib.ExitStack() as stack:
        checked, mode = path, "mode=ro&immutable=1"
        if _has_log(path) or _has_journal(path):  # SQLite merges a log into the file: only in a copy
            checked, mode = _copied(path, stack.enter_context(_temporary_folder(path))), "mode=rw"
        try:
            with contextlib.closing(_connected(f"{_uri(checked)}?{mode}")) as connection:
                answer = connection.execute("pragma quick_check(1)").fetchone()[0]
                columns = _columns_of(connection)
                version, application = _version_of(connection)  # including the log
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter for messages that contain a damaged name
            answer, columns = str(error), []
    if answer != "ok":
        _refuse(path, f"it is damaged, {' '.join(answer.split())}")
    _check_version(path, version, application)
    with contextlib.closing(sqlite3.connect(":memory:")) as reference:
        for step in MIGRATIONS[:version]:
            reference.execute(step)
        if columns != (expected := _columns_of(reference)):
            actual = ", ".join(columns) or "none"
            _refuse(path, f"it is damaged, its columns are {actual}, not {', '.join(expected)}")
    return version


def _check_version(path: Path, version: int, application: int) -> None:
    """Raise SweepError unless a file is a store, of this version or an earlier one."""
    if application != APPLICATION:
        _refuse(path, f"it is a database of another application ({application:#x})")
    if version == 0:  # the version is written together with the application
        _refuse(path, "it is damaged, its version is 0")
    if version > VERSION:
        _refuse(path, f"its version is {version}, written by a later Lathe, and this one reads up to {VERSION}")


def _version_of(connection: sqlite3.Connection) -> tuple[int, int]:
    """The version and application of a database."""
    version, application = (
        connection.execute(f"pragma {name}").fetchone()[0] for name in ("user_version", "application_id")
    )
    return version, application & 0xFFFFFFFF


def _columns_of(connection: sqlite3.Connection) -> list[str]:
    """The names of the columns of rows."""
    return [name for _, name, *_ in connection.execute("pragma table_info(rows)").fetchall()]


def _has_journal(path: Path) -> bool:
    return Path(f"{path}-journal").exists()


@contextlib.contextmanager
def _temporary_folder(path: Path) -> Iterator[Path]:
    """A temporary folder for a copy of a store."""
    try:
        folder = tempfile.TemporaryDirectory()
    except OSError as error:
        raise _uncopied(path, error) from None
    with folder as name:
        yield Path(name)


def _uncopied(path: Path, error: OSError) -> SweepError:
    return SweepError(
        f"Cannot copy store {str(path)!r} to a temporary folder, to read it with its log: {error.strerror}. It was "
        "left unchanged; free some space, or set TMPDIR to a folder with space.",
        file=path,
    )


def _copied(path: Path, folder: Path) -> Path:
    """A copy of a store with its logs, in a folder; copied again if a writer changes it meanwhile."""
    copied = folder / path.name[:50]
    for _ in range(COPIES):
        before = _stamps(path)
        for part in PARTS:
            Path(f"{copied}{part}").unlink(missing_ok=True)
            try:
                shutil.copyfile(f"{path}{part}", f"{copied}{part}")
            except FileNotFoundError:
                continue  # a log that has just been merged into the file
            except OSError as error:
                raise _uncopied(path, error) from None
        if _stamps(path) == before:
            break
    return copied


def _stamps(path: Path) -> list[tuple[int, int]]:
    """Modification times and sizes of the files of a store."""
    stamps = []
    for part in PARTS:
        with contextlib.suppress(OSError):
            stat = os.stat(f"{path}{part}")
            stamps.append((stat.st_mtime_ns, stat.st_size))
    return stamps


def _refuse(path: Path, reason: str) -> NoReturn:
    raise SweepError(
        f"Cannot use store {str(path)!r}: {reason}. It was left unchanged; name another file.", file=path
    ) from None


@contextlib.contextmanager
def _errors_explained(path: Path) -> Iterator[None]:
    """Convert errors of SQLite to SweepError."""
    try:
        yield
    except UnicodeDecodeError as error:  # an answer of SQLite contains damaged text
        _refuse(path, f"it is damaged, {error}")
    except sqlite3.Error as error:
        reason = " ".join(str(error).split())
        remedy = REMEDIES.get(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF)
        if remedy is None:
            _refuse(path, f"it is damaged, {reason}")
        raise SweepError(
            f"Cannot read or write store {str(path)!r}: {reason}. Rows measured before are kept in it; {remedy}, and "
            "the same command resumes.",
            file=path,
        ) from error
