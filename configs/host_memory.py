"""What this computer's memory has room for, where a user's arrays ask for more."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from lathe.configs.array_args import InputError


class MemoryLimitError(InputError):
    """Arrays that this computer's memory does not hold."""

    kind = "limit"


def check_room(nbytes: int, what: str) -> None:
    """Raise :class:`MemoryLimitError` for arrays that exceed all memory there is.

    To ask before allocating matters: where the system promises more memory than it has, it ends the process later.
    """
    if nbytes > _present():
        raise _too_much(what, f"{nbytes} bytes")


@contextmanager
def within_memory(what: str) -> Iterator[None]:
    """What is done inside may ask for arrays that do not fit; then :class:`MemoryLimitError` is raised."""
    try:
        yield
    except MemoryError:
        raise _too_much(what, "more than is free") from None


def _present() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # a system that does not say
        return 1 << 47


def _too_much(what: str, needed: str) -> MemoryLimitError:
    return MemoryLimitError(
        f"The arrays of {what} must be as much as this computer has room for, not {needed}. Use smaller tensors, "
        "or run the program in parts."
    )
