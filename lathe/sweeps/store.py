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
"""What names of stores end with, in any case of letters."""
SECONDS = 10.0
"""How long a writer waits for another."""
PARTS = ("", "-wal", "-journal")
REMEDIES = {
    sqlite3.SQLITE_FULL: "make room",
    sqlite3.SQLITE_IOERR: "make room",
    sqlite3.SQLITE_NOMEM: "make room",
    sqlite3.SQLITE_BUSY: "let the other writer end",
    sqlite3.SQLITE_LOCKED: "let the other writer end",
    sqlite3.SQLITE_CANTOPEN: "make room, or allow writing to its folder",
    sqlite3.SQLITE_READONLY: "allow writing to it",
    sqlite3.SQLITE_PERM: "allow writing to it",
}
"""What helps, by SQLite's answer; nothing does where the file is damaged, which all others say."""
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
    # 4: which sweep of the store has named a row last: rows of files as they were before stay, too.
    "alter table rows add column run integer not null default 0",
)
"""What makes a store of each version from one of the version before; the first makes it from an empty file."""
VERSION = len(MIGRATIONS)


@dataclass(frozen=True)
class StoredRow:
    """A row: its point's key and place, the sources that measured it, its status, its seconds, columns and layers.

    ``run``: the last sweep that has named it, of all that have written to the store, counted from 1.
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
        values = (row.point, row.place, row.sources, row.status, row.seconds, content, layers, row.run)
        with _told(self.path):
            self.connection.execute("insert or replace into rows values (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def next_run(self) -> int:
        """The number of a sweep that begins now."""
        with _told(self.path):
            last: int = self.connection.execute("select max(run) from rows").fetchone()[0] or 0
        return last + 1

    def name(self, points: Iterable[str], run: int) -> None:
        """Note that a sweep has named the rows of these points. Raises SweepError where it cannot be written."""
        with _told(self.path):
            self.connection.execute("begin immediate")
            self.connection.executemany("update rows set run = ? where point = ?", ((run, each) for each in points))
            self.connection.execute("commit")

    def rows(self) -> list[StoredRow]:
        """All rows, in the order of their places."""
        with _told(self.path):
            found = self.connection.execute(
                "select point, place, sources, status, seconds, run, content, layers from rows order by place, point"
            ).fetchall()
        for row in found:
            if tuple(map(type, row[:6])) != (str, int, str, str, float, int):
                _refuse(self.path, f"whole, and is damaged: a row says {shown(row[:6])}")
        return [
            StoredRow(point, place, sources, status, seconds, self._columns(content), self._columns(layers), run)
            for point, place, sources, status, seconds, run, content, layers in found
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
    with _told(path):
        connection = _connected(f"{_uri(path)}?mode=rwc")
    with contextlib.closing(connection):
        with _told(path):
            _migrate(connection, path)
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
    if version == VERSION and not _has_journal(path):
        connection = _read_in_place(path)
        if connection is not None:
            with contextlib.closing(connection):
                yield Store(path, connection)
            return
    with _temporary_folder(path) as folder:  # brought to this version in a copy, its logs in it
        with _told(path):
            connection = _connected(f"{_uri(_copied(path, folder))}?mode=rw")
        with contextlib.closing(connection):
            with _told(path):
                _migrate(connection, path)
            yield Store(path, connection)


def _read_in_place(path: Path) -> sqlite3.Connection | None:
    """A store opened where it is; None where its log's index is missing, and there is no right or no room to make it.

    Without a log nobody writes, and nothing is made beside the file. An empty log may be a writer's that has just
    begun, or what is left of one that found no room: then the file has everything.
    """
    modes = ["mode=ro"] if _log_can_be_read(path) and Path(f"{path}-wal").exists() else []
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
    version, application = _version_of(connection)  # another may have been quicker
    if version:
        _check_version(path, version, application)
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
    """Whether there is a log with something in it."""
    return _holds_something(Path(f"{path}-wal"))


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
    _check_version(path, version, application)
    with contextlib.ExitStack() as stack:
        looked_at, mode = path, "mode=ro&immutable=1"
        if _has_log(path) or _has_journal(path):  # a log is read with the file, which changes both: in a copy
            looked_at, mode = _copied(path, stack.enter_context(_temporary_folder(path))), "mode=rw"
        try:
            with contextlib.closing(_connected(f"{_uri(looked_at)}?{mode}")) as connection:
                found = connection.execute("pragma quick_check(1)").fetchone()[0]
                columns = _columns_of(connection)
                version, application = _version_of(connection)  # what is in its log counts
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter of messages that have a damaged name in them
            found, columns = str(error), []
    if found != "ok":
        _refuse(path, f"whole, and is damaged: {' '.join(found.split())}")
    _check_version(path, version, application)
    with contextlib.closing(sqlite3.connect(":memory:")) as made:
        for step in MIGRATIONS[:version]:
            made.execute(step)
        if columns != (expected := _columns_of(made)):
            told = ", ".join(columns) or "none"
            _refuse(path, f"whole, and is damaged: its columns are {told}, not {', '.join(expected)}")
    return version


def _check_version(path: Path, version: int, application: int) -> None:
    """Raise SweepError unless a file is a store, of this version or an earlier one."""
    if application != APPLICATION:
        _refuse(path, f"a store of a sweep, and is another program's database (application {application:#x})")
    if version == 0:  # which is written together with whose file it is
        _refuse(path, "whole, and is damaged: it is of version 0, which there has never been")
    if version > VERSION:
        _refuse(path, f"of version {VERSION} or below, and is of version {version}, which a later Lathe has written")


def _version_of(connection: sqlite3.Connection) -> tuple[int, int]:
    """The version of a database, and whose it is."""
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
    """A folder for a copy of a store."""
    try:
        folder = tempfile.TemporaryDirectory()
    except OSError as error:
        raise _uncopied(path, error) from None
    with folder as name:
        yield Path(name)


def _uncopied(path: Path, error: OSError) -> SweepError:
    return SweepError(
        f"The store {str(path)!r} must be copied to a temporary folder to be read with what is in its log, and "
        f"cannot be: {error.strerror}. It was left as it is; make room, or name a folder with room in TMPDIR.",
        file=path,
    )


def _copied(path: Path, folder: Path) -> Path:
    """A copy of a store with its logs, in a folder; copied again where a writer has changed it meanwhile."""
    copied = folder / path.name[:50]
    for _ in range(COPIES):
        before = _stamps(path)
        for part in PARTS:
            Path(f"{copied}{part}").unlink(missing_ok=True)
            try:
                shutil.copyfile(f"{path}{part}", f"{copied}{part}")
            except FileNotFoundError:
                continue  # a log that has just been brought into the file
            except OSError as error:
                raise _uncopied(path, error) from None
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
    except UnicodeDecodeError as error:  # of an answer of SQLite's with damaged text in it
        _refuse(path, f"whole, and is damaged: {error}")
    except sqlite3.Error as error:
        told = " ".join(str(error).split())
        remedy = REMEDIES.get(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF)
        if remedy is None:
            _refuse(path, f"whole, and is damaged: {told}")
        raise SweepError(
            f"The store {str(path)!r} must be one that can be read and written, and is not: {told}. What was measured "
            f"before is kept in it; {remedy}, and the same command goes on.",
            file=path,
        ) from error
