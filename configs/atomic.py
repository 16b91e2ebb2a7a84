"""Atomic writing of files: completely or not at all."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from lathe.configs.errors import LatheError, shown


class FileError(LatheError):
    """A file that cannot be read or written; the message states its name and the reason."""


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A context with a binary file to write to, which replaces `path` when the block ends.

    If the block raises, `path` is unchanged and no other file remains. The content is first written to a temporary file
    in the same directory, since only a rename within one file system is atomic. Raises :class:`FileError` if the
    directory is missing or not writable. Devices and pipes (``/dev/null``) are written to directly, since a rename
    would replace them.
    """
    target = path_of(path)
    if os.path.exists(target) and not target.is_file() and not target.is_dir():
        with target.open("wb") as device:
            yield device
        return
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=hidden_prefix(target), dir=target.parent)
    except (OSError, ValueError) as error:
        raise unwritable(target, error) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.chmod(temporary, mode_for(target))
        os.replace(temporary, target)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, temporary):  # not of another file
            raise unwritable(target, error) from error
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise :class:`FileError` if `path` certainly cannot be written, so that long work fails before it starts."""
    target = path_of(path)
    folder = target.parent
    try:
        os.lstat(target)
    except (FileNotFoundError, NotADirectoryError):
        pass  # no file yet; the folder is checked below
    except (OSError, ValueError) as error:  # a name that no file can have
        raise unwritable(target, error) from None
    if target.is_dir():
        raise unwritable(target, OSError(errno.EISDIR, os.strerror(errno.EISDIR)))
    if not folder.is_dir():
        raise unwritable(target, OSError(errno.ENOENT, os.strerror(errno.ENOENT)))
    if not os.access(folder if not target.exists() or target.is_file() else target, os.W_OK):
        raise unwritable(target, OSError(errno.EACCES, os.strerror(errno.EACCES)))


def path_of(path: object) -> Path:
    """The path of an output file. Raises :class:`FileError` for an invalid one."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str) or not os.fspath(path):
        raise FileError(f"The output file must be a path, not {shown(path)}.")
    if "\0" in os.fspath(path):
        raise FileError(f"The path of the output file must have no null characters, not be {shown(path)}.")
    return Path(path)


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace the content of the file by `content`; raises :class:`FileError`."""
    with atomic_write(path) as file:
        file.write(content)


def write_text(path: str | os.PathLike[str], content: str) -> None:
    """Replace the content of the file by `content` in UTF-8; raises :class:`FileError`."""
    write_bytes(path, content.encode())


def mode_for(target: Path) -> int:
    """The permissions that a plain `open` would give: the existing file's, or those that the umask leaves."""
    try:
        return target.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def hidden_prefix(target: Path) -> str:
    """The prefix of temporary file names for `target`, short enough for the limit on name lengths."""
    return f".{target.name[:50]}."


def unwritable(target: Path, error: OSError | ValueError) -> FileError:
    """The error that states why `target` was not written."""
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return FileError(
        f"Cannot write output file {str(target)!r}: {reason}. Nothing was written; choose a path in a directory that "
        "exists and is writable."
    )
