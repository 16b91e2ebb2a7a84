"""The cache of the RTL's builds and fits: its folder, what a machine's hardware is known by, who may write when."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from lathe.configs import HardwareConfig
from lathe.configs.atomic import FileError
from lathe.configs.cache_folder import user_cache_folder
from lathe.rtl.derived_widths import RtlError

# Parameters that the hardware does not depend on: the memory's behind the bus.
OUTSIDE = {
    "name": "machine",
    "memory.latency": 0,
    "memory.cycles_per_beat": 1,
    "memory.shared_bandwidth": True,
}


def as_built(config: HardwareConfig) -> HardwareConfig:
    """The same for all machines whose hardware is the same: what it does not depend on has one value."""
    return config.with_(**OUTSIDE)


def cache_folder(what: str) -> Path:
    """Where ``what`` is kept: LATHE_CACHE, or lathe/ in the user's cache. Raises :class:`RtlError` without a home."""
    folder = user_cache_folder()
    if folder is None:
        raise RtlError(f"The cache of {what} must have a folder, and there is no home. Name one with LATHE_CACHE.")
    return folder


@contextlib.contextmanager
def writing_to(cache: Path, what: str) -> Iterator[None]:
    """Say of a cache that cannot be written to what it is for, and which other place there is."""
    try:
        yield
    except (OSError, FileError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        reason = (cause.strerror if isinstance(cause, OSError) else None) or str(error)
        raise RtlError(
            f"The cache of {what}, {str(cache)!r}, must be a folder that can be written to, not one that "
            f"answers {reason!r}. Name another folder with the environment variable LATHE_CACHE."
        ) from None


@contextlib.contextmanager
def held(lock: IO[str]) -> Iterator[None]:
    """Held by one process at a time; the system releases it when its holder dies."""
    try:
        import fcntl
    except ImportError:  # not on Windows, where two builds at once are merely wasted work
        yield
        return
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield
