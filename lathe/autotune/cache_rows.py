"""Rows of the file of schedules: what was found as columns, with a digest over the row's key and all of its columns.

The key is in the digest because a row that is whole under another key is another program's.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import TypeAlias

from lathe.autotune.primitive_trace import Step, step_from_json
from lathe.autotune.tuned_schedule import Tried
from lathe.configs import LatheError

ScheduleRow: TypeAlias = tuple[str, str, int, str, str]
"""Key, steps, cycles, what was tried, digest."""
ProgramRow: TypeAlias = tuple[str, str, bytes]
"""Key, digest, content."""

TABLES = {
    "schedules": """schedules (
    key text primary key, steps text not null, cycles integer not null, tried text not null, digest text not null
) without rowid""",
    "programs": "programs (key text primary key, digest text not null, content blob not null)",
}
"""Each table as it is made; SQLite keeps these words, by which a table that somebody has altered is known."""


@dataclass(frozen=True)
class CachedSchedule:
    """What was found: the steps, their cycles, and what was tried."""

    steps: tuple[Step, ...]
    cycles: int
    tried: tuple[Tried, ...]


def schedule_row(key: str, kept: CachedSchedule) -> ScheduleRow:
    """What was found, as a row."""
    steps = json.dumps([step.to_json() for step in kept.steps])
    tried = json.dumps([[each.what, each.cycles] for each in kept.tried])
    return key, steps, kept.cycles, tried, digest_of(key, steps, kept.cycles, tried)


def kept_of(key: object, steps: object, cycles: object, tried: object, digest: object) -> CachedSchedule | None:
    """What a row says; None where it is not what ``schedule_row`` writes."""
    if digest != digest_of(key, steps, cycles, tried) or not isinstance(cycles, int) or cycles <= 0:
        return None
    try:
        found = tuple(step_from_json(each) for each in json.loads(str(steps)))
        others = tuple(Tried(str(what), _cycles(n)) for what, n in json.loads(str(tried)))
    except (LatheError, ValueError, TypeError, RecursionError):  # the last for lists that are nested too deeply
        return None
    return CachedSchedule(found, cycles, others)


def _cycles(value: object) -> int | None:
    """Cycles of a candidate; JSON knows numbers without end, and parts of one, which no count is."""
    if value is not None and (type(value) is not int or value <= 0):
        raise ValueError("no number of cycles")
    return value


def program_row(key: str, content: bytes) -> ProgramRow:
    """Bytes, as a row."""
    return key, digest_of(key, content), content


def content_of(key: object, digest: object, content: object) -> bytes | None:
    """The bytes of a row; None where it is not what ``program_row`` writes."""
    return content if isinstance(content, bytes) and digest == digest_of(key, content) else None


def digest_of(*columns: object) -> str:
    """All columns as one number, each with its kind and length, so that none is taken for part of another."""
    content = hashlib.sha256()
    for column in columns:
        text = column if isinstance(column, bytes) else str(column).encode(errors="surrogatepass")
        content.update(f"{type(column).__name__} {len(text)}\0".encode() + text)
    return content.hexdigest()
