"""Row format of the schedule cache: a result as columns, with a digest over the row's key and all of its columns.

The digest covers the key, so that an intact row moved to another program's key is detected.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import TypeAlias

from lathe.autotune.primitive_trace import Step, step_from_json
from lathe.autotune.tuned_schedule import Candidate
from lathe.configs import LatheError

ScheduleRow: TypeAlias = tuple[str, str, int, str, str]
"""Key, steps, cycles, candidates, digest."""
ProgramRow: TypeAlias = tuple[str, str, bytes]
"""Key, digest, content."""

TABLES = {
    "schedules": """schedules (
    key text primary key, steps text not null, cycles integer not null, tried text not null, digest text not null
) without rowid""",
    "programs": "programs (key text primary key, digest text not null, content blob not null)",
}
"""The definition of each table; SQLite stores this text, so that an altered table is detected by comparison."""


@dataclass(frozen=True)
class CachedSchedule:
    """A result of the autotuner: the steps of the best schedule, its cycles, and all candidates."""

    steps: tuple[Step, ...]
    cycles: int
    tried: tuple[Candidate, ...]


def schedule_row(key: str, result: CachedSchedule) -> ScheduleRow:
    """The row of a result."""
    steps = json.dumps([step.to_json() for step in result.steps])
    tried = json.dumps([[each.what, each.cycles] for each in result.tried])
    return key, steps, result.cycles, tried, digest_of(key, steps, result.cycles, tried)


def parse_schedule_row(
    key: object, steps: object, cycles: object, tried: object, digest: object
) -> CachedSchedule | None:
    """The result in a row; None if the row is not one that ``schedule_row`` writes."""
    if digest != digest_of(key, steps, cycles, tried) or not isinstance(cycles, int) or cycles <= 0:
        return None
    try:
        best = tuple(step_from_json(each) for each in json.loads(str(steps)))
        candidates = tuple(Candidate(str(what), _cycles(n)) for what, n in json.loads(str(tried)))
    except (LatheError, ValueError, TypeError, RecursionError):  # the last for lists that are nested too deeply
        return None
    return CachedSchedule(best, cycles, candidates)


def _cycles(value: object) -> int | None:
    """Cycles of a candidate. Raises ValueError for JSON's infinities, fractions and counts below 1."""
    if value is not None and (type(value) is not int or value <= 0):
        raise ValueError("no number of cycles")
    return value


def program_row(key: str, content: bytes) -> ProgramRow:
    """The row of a program's bytes."""
    return key, digest_of(key, content), content


def content_of(key: object, digest: object, content: object) -> bytes | None:
    """The bytes in a row; None if the row is not one that ``program_row`` writes."""
    return content if isinstance(content, bytes) and digest == digest_of(key, content) else None


def digest_of(*columns: object) -> str:
    """A hash of all columns, each with its type and length, so that boundaries between columns count."""
    content = hashlib.sha256()
    for column in columns:
        text = column if isinstance(column, bytes) else str(column).encode(errors="surrogatepass")
        content.update(f"{type(column).__name__} {len(text)}\0".encode() + text)
    return content.hexdigest()
