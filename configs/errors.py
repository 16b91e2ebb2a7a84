"""The base class of user errors, and the errors of configuration files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, TypeAlias

RefusalKind: TypeAlias = Literal["argument", "legality", "machine", "limit"]
"""Why a request is refused. ``argument``: a given value violates its contract; ``legality``: the schedule's order or
the program's semantics forbid it; ``machine``: the hardware cannot do it; ``limit``: Lathe does not support it
(``docs/limits.md``)."""


def shown(value: object) -> str:
    """The ``repr`` of a value for an error message: on one line, at most 60 characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a user's repr may raise anything, and nested lists may exhaust the stack
        text = f"<{type(value).__name__} that cannot be shown>"
    return text if len(text) <= 60 else f"{text[:57]}..."


class LatheError(Exception):
    """A user's mistake: the message says in one paragraph what is wrong, what is allowed and what to do.

    Each package derives its own errors from this class; all of them are importable from ``lathe``. The command line
    prints the message without a traceback and exits with status 2. ``kind`` is the reason of the refusal; errors of
    schedules and builds set it one by one, all others are mistakes in an argument.
    """

    kind: RefusalKind = "argument"


@dataclass(frozen=True, slots=True)
class KeyViolation:
    """What is wrong with one key of a file, without the key's file and line.

    ``key`` is the dotted key ("memory.latency"; empty when no key is at fault), ``thing`` the subject of the message
    (mostly the key itself), ``contract`` what it must be and is not, ``remedy`` a sentence that says what to do.
    """

    key: str
    thing: str
    contract: str
    remedy: str


class LocatedError(LatheError):
    """A mistake that may have a location in a file.

    ``fault`` says what is wrong with which key, or is None when no key is at fault. ``file`` and ``line`` (counted from
    1) are the location, None for values constructed in Python.
    """

    def __init__(
        self, message: str, *, fault: KeyViolation | None = None, file: Path | None = None, line: int | None = None
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.file = file
        self.line = line

    @classmethod
    def at(cls, where: str, fault: KeyViolation, *, file: Path | None = None, line: int | None = None) -> Self:
        """The error for ``fault`` in ``where``, the name of a machine or a file."""
        location = f"{where}, line {line}," if line is not None else where
        message = f"{fault.thing} of {location} must be {fault.contract}. {fault.remedy}"
        return cls(message, fault=fault if fault.key else None, file=file, line=line)


class ConfigError(LocatedError):
    """A hardware configuration that cannot be read, or whose parameters are not allowed."""
