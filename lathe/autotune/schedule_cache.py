"""Schedules that have been found, kept in an SQLite file by the content of program, machine and compiler.

A row holds commands as data (``primitive_trace.py``): nothing in it is executed but by the commands themselves,
which check it. Programs that were built of them are kept beside (``program_cache.py``). Each row has a digest
(``cache_rows.py``), and one that it does not fit counts as none. A file that is damaged, or of another version, is
set aside and begun anew; another program's database is refused; one that is locked is left alone, and the search
goes on without it.
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
    kept_of,
    program_row,
    schedule_row,
)
from lathe.configs import HardwareConfig, LatheError
from lathe.configs.archive_headers import bytes_of_file, loaded_from_bytes
from lathe.configs.cache_folder import user_cache_folder
from lathe.configs.errors import shown
from lathe.frontend import Tensor, format_program

Loaded = TypeVar("Loaded")

APPLICATION = 0x4C415448  # "LATH"
VERSION = 3
SECONDS = 5.0
"""How long one process waits for another, in vain once in a build (``cache_lock.py``)."""
ROOMS = ("configs", "frontend", "isa", "scheduler", "sim", "optimiser")
"""What a schedule and its cycles depend on."""
NAME = "schedules.db"

_SCHEDULE, _PROGRAM = "key, steps, cycles, tried, digest", "key, digest, content"
_KEEP_SCHEDULE = f"insert or replace into schedules ({_SCHEDULE}) values (?, ?, ?, ?, ?)"
_KEEP_PROGRAM = f"insert or replace into programs ({_PROGRAM}) values (?, ?, ?)"


class ScheduleCacheError(LatheError):
    """A file that cannot hold schedules, or holds something else."""


class _SetAsideError(ScheduleCacheError):
    """A file of Lathe's that another version has written, or whose tables somebody has altered."""


@dataclass(frozen=True)
class ScheduleCache:
    """An SQLite file of found schedules; several processes may read and write it at a time."""

    path: Path

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            object.__setattr__(self, "path", Path(path))
            can_be = b"\0" not in os.fsencode(self.path)
        except TypeError:
            raise ScheduleCacheError(f"Path of a schedule cache must be a file's, not {shown(path)}.") from None
        except UnicodeEncodeError:
            can_be = False
        if not can_be:
            raise ScheduleCacheError(
                f"Path of a schedule cache must be one that files can have, not {shown(path)}. Leave out null "
                "characters and halves of surrogate pairs."
            )

    @classmethod
    def default(cls) -> "ScheduleCache | None":
        """The user's, in the folder that LATHE_CACHE names or in the user's cache; None without a home."""
        folder = user_cache_folder()
        return None if folder is None else cls(folder / NAME)

    def read(self, key: str) -> CachedSchedule | None:
        """What is kept under a key; None if nothing is, or nothing that can be read.

        Raises ScheduleCacheError for another program's database.
        """
        row = self._one(f"select {_SCHEDULE} from schedules where key = ?", key)
        return None if row is None else kept_of(*row)

    def write(self, key: str, kept: CachedSchedule) -> None:
        """Keep something; a file that cannot be written to, or is locked for long, is left as it is.

        Raises ScheduleCacheError for another program's database.
        """
        with contextlib.suppress(sqlite3.Error, OSError), self._open() as connection:
            connection.execute(_KEEP_SCHEDULE, schedule_row(key, kept))

    def read_bytes(self, key: str) -> bytes | None:
        """The bytes that are kept under a key; None if there are none, or others than were written.

        Raises ScheduleCacheError for another program's database.
        """
        row = self._one(f"select {_PROGRAM} from programs where key = ?", key)
        return None if row is None else content_of(*row)

    def _one(self, query: str, key: str) -> tuple[Any, ...] | None:
        """The row that a query finds; None where there is none, or no file that can be read."""
        try:
            if not self.path.exists():
                return None
            _check(self.path)
            with connected(self.path, SECONDS) as connection:
                row: tuple[Any, ...] | None = connection.execute(query, (key,)).fetchone()
        except (sqlite3.Error, OSError, _SetAsideError):
            return None  # whoever writes sets it aside
        return row

    def write_bytes(self, key: str, content: bytes) -> None:
        """Keep bytes, as ``write`` does."""
        with contextlib.suppress(sqlite3.Error, OSError), self._open() as connection:
            connection.execute(_KEEP_PROGRAM, program_row(key, content))

    def read_file(self, key: str, load: Callable[[Path], Loaded]) -> Loaded | None:
        """What ``load`` makes of the file that is kept under a key; None if there is none, or none that it reads."""
        content = self.read_bytes(key)
        if content is None:
            return None
        try:
            return loaded_from_bytes(content, load)
        except LatheError:
            return None

    def write_file(self, key: str, save: Callable[[Path], None]) -> None:
        """Keep the file that ``save`` writes, as ``write`` does."""
        self.write_bytes(key, bytes_of_file(save))

    def forget_oldest(self, kind: str, most: int) -> None:
        """Let the bytes whose keys begin with ``kind`` take no more than so many, those written last."""
        with contextlib.suppress(sqlite3.Error, OSError), self._open() as connection:
            rows = connection.execute(
                "select rowid, length(content) from programs where key >= ? and key < ? order by rowid desc",
                (kind, f"{kind}~"),
            ).fetchall()
            total = list(accumulate(size for _, size in rows))
            gone = [(row,) for (row, _), before in zip(rows, total, strict=True) if before > most]
            connection.executemany("delete from programs where rowid = ?", gone)

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write all schedules and programs to a new file, or add them to one that holds such; how many schedules.

        Raises ScheduleCacheError for a file that holds something else or cannot be written.
        """
        return ScheduleCache(path)._add(*self._rows())

    def include(self, path: str | os.PathLike[str]) -> int:
        """Add what an exported file holds; how many schedules. Raises ScheduleCacheError for any other file."""
        other = ScheduleCache(path)
        if not os.path.isfile(other.path):  # of the path it raises nothing, as for a name that is too long
            raise ScheduleCacheError(f"File of schedules must be one that there is, not {str(other.path)!r}.")
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
            raise ScheduleCacheError(
                f"File of schedules must be a database that Lathe has written, and {str(self.path)!r} cannot be read: "
                f"{error}."
            ) from None
        whole = [row for row in programs if content_of(*row) is not None]
        return [row for row in rows if kept_of(*row) is not None], whole

    def _add(self, rows: Sequence[ScheduleRow], programs: Sequence[ProgramRow]) -> int:
        try:
            if self.path.exists():
                _check(self.path)
            with self._open() as connection:
                connection.executemany(_KEEP_SCHEDULE, rows)
                connection.executemany(_KEEP_PROGRAM, programs)
        except (sqlite3.Error, OSError) as error:
            raise ScheduleCacheError(
                f"File of schedules must be one that can be written, and {str(self.path)!r} cannot: {error}."
            ) from None
        return len(rows)

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection, in a transaction that ends with the block and makes the tables where they are missing.

        One transaction, and no journal mode of its own: a file half made would be taken for another version's and set
        aside, and a change of mode is refused at once while another process has the file open.

        A damaged file, one of another version or with other tables is set aside first. Of one whose damage is found
        only within the block, nothing is kept this time.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            try:
                _check(self.path)
            except (_SetAsideError, sqlite3.DatabaseError) as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise  # locked, or no file at all
                self._set_aside()
        try:
            with connected(self.path, SECONDS) as connection:
                connection.execute("begin immediate")
                if connection.execute("pragma user_version").fetchone()[0] != VERSION:
                    connection.execute(f"pragma application_id = {APPLICATION}")
                    for table in TABLES.values():
                        connection.execute(f"create table if not exists {table}")
                    connection.execute(f"pragma user_version = {VERSION}")
                yield connection
                connection.execute("commit")  # closing without it rolls back, and with the rows the tables
        except sqlite3.DatabaseError as error:
            if code_of(error) == sqlite3.SQLITE_CORRUPT:
                self._set_aside()  # pages that only the rows are in
            raise

    def _set_aside(self) -> None:
        """Rename a file that cannot be used, with its log, which would else be the new one's."""
        for part in ("", "-journal", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self.path}{part}", f"{self.path}.unreadable{part}")


def _check(path: Path) -> None:
    """Raises ScheduleCacheError for a file of another program, version or form, sqlite3.Error for a damaged one."""
    with connected(path, SECONDS) as connection:
        connection.execute("begin")  # one look: between two, another process may make the tables
        application, version = (
            connection.execute(f"pragma {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        tables = dict(connection.execute("select name, sql from sqlite_master").fetchall())
    if (application, version) == (APPLICATION, VERSION):
        for name, made in TABLES.items():
            if tables.get(name) != f"CREATE TABLE {made}":
                raise _SetAsideError(
                    f"Table {name!r} of {str(path)!r} must be as Lathe makes it, not "
                    f"{shown(tables[name]) if name in tables else 'missing'}. Name another file."
                )
    elif tables:
        kind = _SetAsideError if application == APPLICATION else ScheduleCacheError
        raise kind(
            f"File of schedules {str(path)!r} must be Lathe's, of version {VERSION}, not of application "
            f"{application:#x} and version {version}. Name another file."
        )


def key_of(outputs: Sequence[Tensor], config: HardwareConfig, budget: int) -> str:
    """What a search depends on, as one number: program, machine, budget and compiler."""
    machine = json.dumps(asdict(config), sort_keys=True, default=str)
    program = format_program(list(outputs)) + "\n" + " ".join(each.name for each in outputs)
    content = "\0".join([program, machine, str(budget), sources_of(ROOMS)])
    return hashlib.sha256(content.encode()).hexdigest()


@lru_cache(maxsize=8)
def sources_of(rooms: tuple[str, ...]) -> str:
    """The content of all sources of some rooms, as one number."""
    root = Path(__file__).parent.parent
    content = hashlib.sha256()
    for room in rooms:
        for path in sorted((root / room).rglob("*.py")):
            content.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return content.hexdigest()
