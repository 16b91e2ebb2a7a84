"""Lock timeout of the schedule cache: waits for a locked file at most once per build.

A build reads and writes the file several times; after one timeout it does not wait again.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class _Wait:
    timed_out: bool = False


_WAIT: ContextVar[_Wait | None] = ContextVar("whether a wait for the lock has timed out", default=None)


@contextlib.contextmanager
def wait_for_lock_once() -> Iterator[None]:
    """Context or decorator in which no connection waits for a lock after one wait has timed out."""
    if _WAIT.get() is not None:
        yield  # the outermost context counts: a search within a build belongs to the build
        return
    before = _WAIT.set(_Wait())
    try:
        yield
    finally:
        _WAIT.reset(before)


@contextlib.contextmanager
def connected(path: str | os.PathLike[str], seconds: float) -> Iterator[sqlite3.Connection]:
    """An autocommit connection that waits up to ``seconds`` for a lock, or not at all after an earlier timeout."""
    wait = _WAIT.get() or _Wait()
    timeout = 0.0 if wait.timed_out else seconds
    with contextlib.closing(sqlite3.connect(path, timeout=timeout, isolation_level=None)) as connection:
        try:
            yield connection
        except sqlite3.OperationalError as error:
            wait.timed_out |= code_of(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            raise


def code_of(error: sqlite3.Error) -> int:
    """SQLite's primary result code of an error; 0 for an error of Python's module itself."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
