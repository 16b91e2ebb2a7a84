"""Schedule cache: an SQLite file of autotuned schedules, keyed by a hash of program, machine and compiler.

A row holds primitives as data (``primitive_trace.py``); replaying them checks them. Programs built from the schedules
are stored in a second table (``program_cache.py``). Each row has a digest (``cache_rows.py``); a row that does not
match its digest is ignored. A damaged file, or one of another version, is renamed and replaced by a new one; another
application's database is refused; the search goes on without a file that is locked.
"""

import contextlib
import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from lathe.autotune.cache_lock import code_of, connected
from lathe.autotune.cache_rows import (
    TABLES,
    CachedSchedule,
    ProgramRow,
    ScheduleRow,
    content_of,
    parse_schedule_row,
    program_row,
    schedule_row,
)
from lathe.configs import HardwareConfig, LatheError
from lathe.configs.archive_headers import load_from_bytes, save_to_bytes
from lathe.configs.cache_folder import user_cache_folder
from lathe.configs.errors import shown
from lathe.frontend import Tensor, format_program

Loaded = TypeVar("Loaded")

APPLICATION = 0x4C415448  # "LATH"
VERSION = 3
SECONDS = 5.0
"""Timeout for a file that another process has locked; at most one timeout per build (``cache_lock.py``)."""
HASHED_PACKAGES = ("configs", "frontend", "isa", "scheduler", "sim", "autotune")
"""The packages that a schedule and its cycles depend on."""
NAME = "schedules.db"

_SCHEDULE, _PROGRAM = "key, steps, cycles, tried, digest", "key, digest, content"
_INSERT_SCHEDULE = f"insert or replace into schedules ({_SCHEDULE}) values (?, ?, ?, ?, ?)"
_INSERT_PROGRAM = f"insert or replace into programs ({_PROGRAM}) values (?, ?, ?)"


class ScheduleCacheError(LatheError):
    """A file that cannot be used as a schedule cache."""


class _UnusableFileError(ScheduleCacheError):
    """A schedule cache that another version has written, or whose tables have been altered; it may be replaced."""


@dataclass(frozen=True)
class ScheduleCache:
    """An SQLite file of autotuned schedules; several processes may read and write it at a time."""

    path: Path

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            object.__setattr__(self, "path", Path(path))
            valid = b"\0" not in os.fsencode(self.path)
        except TypeError:
            raise ScheduleCacheError(f"Path of a schedule cache must be a path, not {shown(path)}.") from None
        except UnicodeEncodeError:
            valid = False
        if not valid:
            raise ScheduleCacheError(
                f"Path of a schedule cache must be valid on this system, not {shown(path)}. Leave out null characters "
                "and unpaired surrogates."
            )

    @classmethod
    def default(cls) -> "ScheduleCache | None":
        """The user's cache, in the folder LATHE_CACHE or the user's cache folder; None without a home folder."""
        folder = user_cache_folder()
        return None if folder is None else cls(folder / NAME)

    def read(self, key: str) -> CachedSchedule | None:
        """The cached result of a key; None if there is none, or it cannot be read.

        Raises ScheduleCacheError for another application's database.
        """
        row = self._select(f"select {_SCHEDULE} from schedules where key = ?", key)
        return None if row is None else parse_schedule_row(*row)

    def write(self, key: str, result: CachedSchedule) -> None:
        """Store a result; does nothing if the file cannot be written, or stays locked.

        Raises ScheduleCacheError for another application's database.
        """
        with contextlib.suppress(sqlite3.Error, OSError), self._open() as connection:
            connection.execute(_INSERT_SCHEDULE, schedule_row(key, result))

    def read_bytes(self, key: str) -> bytes | None:
        """The cached bytes of a key; None if there are none, or they are damaged.

        Raises ScheduleCacheError for another application's database.
        """
        row = self._select(f"select {_PROGRAM} from programs where key = ?", key)
        return None if row is None else content_of(*row)

    def _select(self, query: str, key: str) -> tuple[Any, ...] | None:
        """The row that a query returns; None if there is none, or the file cannot be read."""
        try:
            if not self.path.exists():
                return None
            _check(self.path)
            with connected(self.path, SECONDS) as connection:
                row: tuple[Any, ...] | None = connection.execute(query, (key,)).fetchone()
        except (sqlite3.Error, OSError, _UnusableFileError):
            return None  # the next write replaces the file
        return row

    def write_bytes(self, key: str, content: bytes) -> None:
        """Store bytes, as ``write`` does."""
        with contextlib.suppress(sqlite3.Error, OSError), self._open() as connection:
            connection.execute(_INSERT_PROGRAM, program_row(key, content))

    def read_file(self, key: str, load: Callable[[Path], Loaded]) -> Loaded | None:
        """The result of ``load`` for the cached file of a key; None if there is none, or ``load`` refuses it."""
        content = self.read_bytes(key)
        if content is None:
            return None
        try:
            return load_from_bytes(content, load)
        except LatheError:
            return None

    def write_file(self, key: str, save: Callable[[Path], None]) -> None:
        """Store the file that ``save`` writes, as ``write`` does."""
        self.write_bytes(key, save_to_bytes(save))

    def forget_oldest(self, kind: str, most: int) -> None:
        """Evict the oldest entries whose keys begin with ``kind``, until the others take at most ``most`` bytes."""
        with contextlib.suppress(sqlite3.Error, OSError), self._open() as connection:
            rows = connection.execute(
                "select rowid, length(content) from programs where key >= ? and key < ? order by rowid desc",
                (kind, f"{kind}~"),
            ).fetchall()
            total = list(accumulate(size for _, size in rows))
            evicted = [(row,) for (row, _), used in zip(rows, total, strict=True) if used > most]
            connection.executemany("delete from programs where rowid = ?", evicted)

    def export(self, path: str | os.PathLike[str]) -> int:
        """Add all schedules and programs to a new or existing cache file; returns the number of schedules.

        Raises ScheduleCacheError for a file that is no schedule cache or cannot be written.
        """
        return ScheduleCache(path)._add(*self._rows())

    def include(self, path: str | os.PathLike[str]) -> int:
        """Add the content of an exported file; returns the number of schedules. Raises ScheduleCacheError."""
        other = ScheduleCache(path)
        if not os.path.isfile(other.path):  # unlike Path.is_file, it does not raise for a name that is too long
            raise ScheduleCacheError(f"Cannot include schedules from {str(other.path)!r}: no such file.")
        return self._add(*other._rows())

    def _rows(self) -> tuple[list[ScheduleRow], list[ProgramRow]]:
        try:
            if not self.path.exists():
                return [], []
            _check(self.path)
            with connected(self.path, SECONDS) as connection:
                rows = connection.execute(f"select {_SCHEDULE} from schedules order by key").fetchall()
                programs = connection.execute(f"select {_PROGRAM} from programs order by key").fetchall()
        except (sqlite3.Error, OSError) as error:
            raise ScheduleCacheError(f"Cannot read schedule cache {str(self.path)!r}: {error}.") from None
        whole = [row for row in programs if content_of(*row) is not None]
        return [row for row in rows if parse_schedule_row(*row) is not None], whole

    def _add(self, rows: Sequence[ScheduleRow], programs: Sequence[ProgramRow]) -> int:
        try:
            if self.path.exists():
                _check(self.path)
            with self._open() as connection:
                connection.executemany(_INSERT_SCHEDULE, rows)
                connection.executemany(_INSERT_PROGRAM, programs)
        except (sqlite3.Error, OSError) as error:
            raise ScheduleCacheError(f"Cannot write schedule cache {str(self.path)!r}: {error}.") from None
        return len(rows)

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction that ends with the context; creates missing tables.

        One transaction creates them, so that no process sees a half-made file and takes it for another version's. The
        journal mode stays the default: SQLite refuses a change at once while another process has the file open.

        A damaged file, or one of another version or with other tables, is replaced by a new one first. If the damage is
        found only within the context, the write is lost.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            try:
                _check(self.path)
            except (_UnusableFileError, sqlite3.DatabaseError) as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise  # locked, or not a file
                self._move_away()
        try:
            with connected(self.path, SECONDS) as connection:
                connection.execute("begin immediate")
                if connection.execute("pragma user_version").fetchone()[0] != VERSION:
                    connection.execute(f"pragma application_id = {APPLICATION}")
                    for table in TABLES.values():
                        connection.execute(f"create table if not exists {table}")
                    connection.execute(f"pragma user_version = {VERSION}")
                yield connection
                connection.execute("commit")  # closing without it rolls back both rows and tables
        except sqlite3.DatabaseError as error:
            if code_of(error) == sqlite3.SQLITE_CORRUPT:
                self._move_away()  # damaged pages that ``_check`` does not read
            raise

    def _move_away(self) -> None:
        """Rename an unusable file together with its logs, which SQLite would otherwise apply to the new file."""
        for suffix in ("", "-journal", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self.path}{suffix}", f"{self.path}.unreadable{suffix}")


def _check(path: Path) -> None:
    """Raise ScheduleCacheError for another application, version or table, sqlite3.Error for a damaged file."""
    with connected(path, SECONDS) as connection:
        connection.execute("begin")  # one snapshot: another process may create the tables between two queries
        application, version = (
            connection.execute(f"pragma {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        tables = dict(connection.execute("select name, sql from sqlite_master").fetchall())
    if (application, version) == (APPLICATION, VERSION):
        for name, definition in TABLES.items():
            if tables.get(name) != f"CREATE TABLE {definition}":
                raise _UnusableFileError(
                    f"Table {name!r} of {str(path)!r} must be as Lathe creates it, not "
                    f"{shown(tables[name]) if name in tables else 'missing'}. Name another file."
                )
    elif tables:
        kind = _UnusableFileError if application == APPLICATION else ScheduleCacheError
        raise kind(
            f"{str(path)!r} must be a schedule cache of Lathe, version {VERSION}, not a database of application "
            f"{application:#x}, version {version}. Name another file."
        )


def key_of(outputs: Sequence[Tensor], config: HardwareConfig, budget: int) -> str:
    """A hash of all that a search depends on: program, machine, budget and the compiler's sources."""
    machine = json.dumps(asdict(config), sort_keys=True, default=str)
    program = format_program(list(outputs)) + "\n" + " ".join(each.name for each in outputs)
    content = "\0".join([program, machine, str(budget), sources_of(HASHED_PACKAGES)])
    return hashlib.sha256(content.encode()).hexdigest()


@lru_cache(maxsize=8)
def sources_of(packages: tuple[str, ...]) -> str:
    """A hash of all source files of some packages of Lathe."""
    root = Path(__file__).parent.parent
    content = hashlib.sha256()
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            content.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return content.hexdigest()
