"""Checks that a user's arrays fit in the memory of the host CPU."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from lathe.configs.array_args import InputError


class MemoryLimitError(InputError):
    """Arrays that do not fit in this computer's memory."""

    kind = "limit"


def check_fits_memory(nbytes: int, what: str) -> None:
    """Raise :class:`MemoryLimitError` for arrays larger than the whole physical memory.

    Checked before allocation: an operating system that overcommits memory kills the process later instead.
    """
    if nbytes > _physical_bytes():
        raise _limit_error(what, f"{nbytes} bytes")


@contextmanager
def within_memory(what: str) -> Iterator[None]:
    """A context that turns a MemoryError inside it into :class:`MemoryLimitError`."""
    try:
        yield
    except MemoryError:
        raise _limit_error(what, "more than is free") from None


def _physical_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not known on this system
        return 1 << 47


def _limit_error(what: str, needed: str) -> MemoryLimitError:
    return MemoryLimitError(
        f"Cannot allocate the arrays of {what}: they need {needed}, and must fit in this computer's memory. Use "
        "smaller tensors, or split the program."
    )
