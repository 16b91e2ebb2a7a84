"""How long a file of schedules is waited for: within one build, in vain only once.

A build reads and writes several times. Who holds the file for longer than one waits holds it for the others, too.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class _Wait:
    in_vain: bool = False


_WAIT: ContextVar[_Wait | None] = ContextVar("whether a file was waited for in vain", default=None)


@contextlib.contextmanager
def wait_for_lock_once() -> Iterator[None]:
    """Inside, or in the function that it decorates, nobody waits for a lock once somebody has waited in vain."""
    if _WAIT.get() is not None:
        yield  # the outermost block counts: a search within a build is a part of it
        return
    before = _WAIT.set(_Wait())
    try:
        yield
    finally:
        _WAIT.reset(before)


@contextlib.contextmanager
def connected(path: str | os.PathLike[str], seconds: float) -> Iterator[sqlite3.Connection]:
    """A connection without transactions of its own that waits so long for a lock, as far as ``wait_for_lock_once``
    lets it.
    """
    wait = _WAIT.get() or _Wait()
    timeout = 0.0 if wait.in_vain else seconds
    with contextlib.closing(sqlite3.connect(path, timeout=timeout, isolation_level=None)) as connection:
        try:
            yield connection
        except sqlite3.OperationalError as error:
            wait.in_vain |= code_of(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            raise


def code_of(error: sqlite3.Error) -> int:
    """What SQLite says it is, without the details; 0 for what Python's module says."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
