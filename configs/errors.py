"""The base of every error that a user of Lathe can cause, and the errors of this room."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, TypeAlias

RefusalKind: TypeAlias = Literal["argument", "legality", "machine", "limit"]
"""Why something is refused: what is given is not what it must be; the order, or the program's meaning, forbids it; the
machine forbids it; or Lathe cannot do it, although it makes sense (``docs/limits.md``)."""


def shown(value: object) -> str:
    """A value as it is quoted in a message: on one line, and no longer than fits there."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # objects of users, whose repr may do anything, and lists nested deeper than Python's stack
        text = f"<{type(value).__name__} that cannot be shown>"
    return text if len(text) <= 60 else f"{text[:57]}..."


class LatheError(Exception):
    """A mistake in what the user gave, told in one paragraph: what is wrong, what is allowed, what to do.

    Each room derives its own errors from this class; all of them are importable from ``lathe``. The command line
    prints the message without a traceback and exits with status 2. ``kind`` says why it is refused; what schedules
    and builds refuse states one for each reason, and anything else is a mistake in an argument.
    """

    kind: RefusalKind = "argument"


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one key of a file, without the place where the key stands.

    ``key`` is the dotted key ("memory.latency"; empty when no key is at fault), ``thing`` what the message names
    (mostly the key itself), ``contract`` what it must be and is not, ``remedy`` a sentence that says what to do.
    """

    key: str
    thing: str
    contract: str
    remedy: str


class PlacedError(LatheError):
    """A mistake that may stand in a file.

    ``fault`` says what is wrong with which key, or is None when no key is at fault. ``file`` and ``line`` (counted
    from 1) say where it stands and are None for what was made in Python.
    """

    def __init__(
        self, message: str, *, fault: Fault | None = None, file: Path | None = None, line: int | None = None
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.file = file
        self.line = line

    @classmethod
    def at(cls, where: str, fault: Fault, *, file: Path | None = None, line: int | None = None) -> Self:
        """The error for ``fault``, found in ``where`` (a machine's or a file's name)."""
        place = f"{where}, line {line}," if line is not None else where
        message = f"{fault.thing} of {place} must be {fault.contract}. {fault.remedy}"
        return cls(message, fault=fault if fault.key else None, file=file, line=line)


class ConfigError(PlacedError):
    """A hardware configuration that cannot be read or that describes no machine of Lathe's."""
