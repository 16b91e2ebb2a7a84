"""The cache of Verilated machines and FPGA fits: its folder, the identity of a machine's hardware, and a lock."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from lathe.configs import HardwareConfig
from lathe.configs.atomic import FileError
from lathe.configs.cache_folder import user_cache_folder
from lathe.rtl.derived_widths import RtlError

# Parameters that the hardware does not depend on: the name, and the memory on the bus.
EXTERNAL = {"name": "machine", "memory.latency": 0, "memory.cycles_per_beat": 1, "memory.shared_bandwidth": True}


def as_built(config: HardwareConfig) -> HardwareConfig:
    """The configuration without what the hardware does not depend on, the same for all machines of equal hardware."""
    return config.with_(**EXTERNAL)


def cache_folder(what: str) -> Path:
    """The cache folder: LATHE_CACHE, or lathe/ in the user's cache. Raises :class:`RtlError` without home directory."""
    folder = user_cache_folder()
    if folder is None:
        raise RtlError(f"Cannot cache {what}: there is no home directory. Name a folder with LATHE_CACHE.")
    return folder


@contextlib.contextmanager
def cache_write_errors(cache: Path, what: str) -> Iterator[None]:
    """Turn errors of writing to the cache of ``what`` into :class:`RtlError`."""
    try:
        yield
    except (OSError, FileError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        reason = (cause.strerror if isinstance(cause, OSError) else None) or str(error)
        raise RtlError(
            f"Cannot write to the cache of {what}, {str(cache)!r}: {reason}. "
            "Set the environment variable LATHE_CACHE to another folder."
        ) from None


@contextlib.contextmanager
def exclusive_lock(lock: IO[str]) -> Iterator[None]:
    """Hold an exclusive lock on a file; the operating system releases it when the process dies."""
    try:
        import fcntl
    except ImportError:  # on Windows, where two builds at once only waste time
        yield
        return
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield
