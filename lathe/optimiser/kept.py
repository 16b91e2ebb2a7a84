"""Schedules that have been found, kept in an SQLite file by the content of program, machine and compiler.

A row holds commands as data (``steps.py``): nothing in it is executed but by the commands themselves, which check it.
Programs that were built of them are kept beside (``kept_programs.py``), with a digest of their bytes. A file that is
damaged, or of another version, is set aside and begun anew; another program's database is refused; one that is locked
is left alone, and the search goes on without it.
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
from typing import Any, TypeAlias, TypeVar

from lathe.configs import HardwareConfig, LatheError
from lathe.configs.archive_headers import bytes_of_file, loaded_from_bytes
from lathe.configs.cache_folder import user_cache_folder
from lathe.configs.errors import shown
from lathe.frontend import Tensor, format_program
from lathe.optimiser.found import Tried
from lathe.optimiser.steps import Step, step_from_json

Loaded = TypeVar("Loaded")

APPLICATION = 0x4C415448  # "LATH"
VERSION = 2
SECONDS = 5.0
"""How long a writer waits for another."""
ROOMS = ("configs", "frontend", "isa", "scheduler", "sim", "optimiser")
"""What a schedule and its cycles depend on."""
NAME = "schedules.db"

_TABLES = (
    """create table if not exists schedules (
    key text primary key, steps text not null, cycles integer not null, tried text not null
) without rowid""",
    "create table if not exists programs (key text primary key, digest text not null, content blob not null)",
)


_Schedule: TypeAlias = tuple[str, str, int, str]
_Program: TypeAlias = tuple[str, str, bytes]


class ScheduleCacheError(LatheError):
    """A file that cannot hold schedules, or holds something else."""


class _OtherVersionError(ScheduleCacheError):
    """A file of Lathe's that another version has written."""


@dataclass(frozen=True)
class Kept:
    """What was found: the steps, their cycles, and what was tried."""

    steps: tuple[Step, ...]
    cycles: int
    tried: tuple[Tried, ...]


@dataclass(frozen=True)
class ScheduleCache:
    """An SQLite file of found schedules; several processes may read and write it at a time."""

    path: Path

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            object.__setattr__(self, "path", Path(path))
        except TypeError:
            raise ScheduleCacheError(f"Path of a schedule cache must be a file's, not {shown(path)}.") from None

    @classmethod
    def default(cls) -> "ScheduleCache | None":
        """The user's, in the folder that LATHE_CACHE names or in the user's cache; None without a home."""
        folder = user_cache_folder()
        return None if folder is None else cls(folder / NAME)

    def read(self, key: str) -> Kept | None:
        """What is kept under a key; None if nothing is, or nothing that can be read.

        Raises ScheduleCacheError for another program's database.
        """
        row = self._one("select steps, cycles, tried from schedules where key = ?", key)
        return None if row is None else _kept(*row)

    def write(self, key: str, kept: Kept) -> None:
        """Keep something; a file that cannot be written to, or is locked for long, is left as it is.

        Raises ScheduleCacheError for another program's database.
        """
        with contextlib.suppress(sqlite3.Error, OSError), self._open() as connection:
            connection.execute("insert or replace into schedules values (?, ?, ?, ?)", (key, *_row(kept)))

    def read_bytes(self, key: str) -> bytes | None:
        """The bytes that are kept under a key; None if there are none, or others than were written.

        Raises ScheduleCacheError for another program's database.
        """
        row = self._one("select digest, content from programs where key = ?", key)
        return row[1] if row is not None and _digest(row[1]) == row[0] else None

    def _one(self, query: str, key: str) -> tuple[Any, ...] | None:
        """The row that a query finds; None where there is none, or no file that can be read."""
        if not self.path.exists():
            return None
        try:
            _check(self.path)
            with contextlib.closing(sqlite3.connect(self.path, timeout=SECONDS)) as connection:
                row: tuple[Any, ...] | None = connection.execute(query, (key,)).fetchone()
        except (sqlite3.Error, OSError, _OtherVersionError):
            return None  # whoever writes sets it aside
        return row

    def write_bytes(self, key: str, content: bytes) -> None:
        """Keep bytes, as ``write`` does."""
        with contextlib.suppress(sqlite3.Error, OSError), self._open() as connection:
            connection.execute("insert or replace into programs values (?, ?, ?)", (key, _digest(content), content))

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
        if not other.path.is_file():
            raise ScheduleCacheError(f"File of schedules must be one that there is, not {str(other.path)!r}.")
        return self._add(*other._rows())

    def _rows(self) -> tuple[list[_Schedule], list[_Program]]:
        if not self.path.exists():
            return [], []
        try:
            _check(self.path)
            with contextlib.closing(sqlite3.connect(self.path, timeout=SECONDS)) as connection:
                rows = connection.execute("select key, steps, cycles, tried from schedules order by key").fetchall()
                programs = connection.execute("select key, digest, content from programs order by key").fetchall()
        except (sqlite3.Error, OSError) as error:
            raise ScheduleCacheError(
                f"File of schedules must be a database that Lathe has written, and {str(self.path)!r} cannot be read: "
                f"{error}."
            ) from None
        whole = [row for row in programs if _digest(row[2]) == row[1]]
        return [row for row in rows if _kept(*row[1:]) is not None], whole

    def _add(self, rows: Sequence[_Schedule], programs: Sequence[_Program]) -> int:
        try:
            if self.path.exists():
                _check(self.path)
            with self._open() as connection:
                connection.executemany("insert or replace into schedules values (?, ?, ?, ?)", rows)
                connection.executemany("insert or replace into programs values (?, ?, ?)", programs)
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

        A damaged file, or one of another version, is set aside first, with its log, which would else be the new one's.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            try:
                _check(self.path)
            except (_OtherVersionError, sqlite3.DatabaseError) as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise  # locked, or no file at all
                for part in ("", "-journal", "-wal", "-shm"):
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(f"{self.path}{part}", f"{self.path}.unreadable{part}")
        with contextlib.closing(sqlite3.connect(self.path, timeout=SECONDS, isolation_level=None)) as connection:
            connection.execute("begin immediate")
            if connection.execute("pragma user_version").fetchone()[0] != VERSION:
                connection.execute(f"pragma application_id = {APPLICATION}")
                for table in _TABLES:
                    connection.execute(table)
                connection.execute(f"pragma user_version = {VERSION}")
            yield connection
            connection.execute("commit")  # closing without it rolls back, and with the rows the tables


def _check(path: Path) -> None:
    """Raises ScheduleCacheError for a file of another program or version, sqlite3.Error for a damaged one."""
    with contextlib.closing(sqlite3.connect(path, timeout=SECONDS, isolation_level=None)) as connection:
        connection.execute("begin")  # one look: between two, another process may make the tables
        application, version = (
            connection.execute(f"pragma {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        tables = connection.execute("select count(*) from sqlite_master").fetchone()[0]
    if tables and (application, version) != (APPLICATION, VERSION):
        kind = _OtherVersionError if application == APPLICATION else ScheduleCacheError
        raise kind(
            f"File of schedules {str(path)!r} must be Lathe's, of version {VERSION}, not of application "
            f"{application:#x} and version {version}. Name another file."
        )


def _digest(content: object) -> str:
    return hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else ""


def _row(kept: Kept) -> tuple[str, int, str]:
    steps = json.dumps([step.to_json() for step in kept.steps])
    return steps, kept.cycles, json.dumps([[each.what, each.cycles] for each in kept.tried])


def _kept(steps: object, cycles: object, tried: object) -> Kept | None:
    """What a row says; None where it is not what ``_row`` writes."""
    try:
        found = tuple(step_from_json(each) for each in json.loads(str(steps)))
        others = tuple(Tried(str(what), None if n is None else int(n)) for what, n in json.loads(str(tried)))
        return Kept(found, int(str(cycles)), others) if int(str(cycles)) > 0 else None
    except (LatheError, ValueError, TypeError):
        return None


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
