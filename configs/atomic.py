"""Files that are written whole or not at all."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from lathe.configs.errors import LatheError, shown


class FileError(LatheError):
    """A file that cannot be read or written; the message names it and the reason."""


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file to write to, which takes the place of `path` when the block ends.

    When the block raises, `path` stays as it was, and nothing is left beside it. The new content is first written to
    a temporary file in the same directory, since only a rename within one file system is atomic. Raises
    :class:`FileError` when the directory is missing or may not be written to. Devices and pipes (``/dev/null``) are
    written to as they are, since a rename would replace them.
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
        if isinstance(error, OSError) and error.filename in (None, temporary):  # not one of the block's own files
            raise unwritable(target, error) from error
        raise


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise :class:`FileError` when `path` certainly cannot be written, so that long work need not begin."""
    target = path_of(path)
    folder = target.parent
    try:
        os.lstat(target)
    except (FileNotFoundError, NotADirectoryError):
        pass  # no file yet; the folder is looked at below
    except (OSError, ValueError) as error:  # a name that no file can have
        raise unwritable(target, error) from None
    if target.is_dir():
        raise unwritable(target, OSError(errno.EISDIR, os.strerror(errno.EISDIR)))
    if not folder.is_dir():
        raise unwritable(target, OSError(errno.ENOENT, os.strerror(errno.ENOENT)))
    if not os.access(folder if not target.exists() or target.is_file() else target, os.W_OK):
        raise unwritable(target, OSError(errno.EACCES, os.strerror(errno.EACCES)))


def path_of(path: object) -> Path:
    """The path of an output file. Raises :class:`FileError` for what is none."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str) or not os.fspath(path):
        raise FileError(f"The output file must be given by its path, not {shown(path)}.")
    if "\0" in os.fspath(path):
        raise FileError(f"The name of the output file must be one without null characters, not {shown(path)}.")
    return Path(path)


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Make `content` the content of the file; raises :class:`FileError`."""
    with writing(path) as file:
        file.write(content)


def write_text(path: str | os.PathLike[str], content: str) -> None:
    """Make `content`, in UTF-8, the content of the file; raises :class:`FileError`."""
    write_bytes(path, content.encode())


def mode_for(target: Path) -> int:
    """The permissions that an ordinary `open` would leave: the old file's, or what the process's mask lets through."""
    try:
        return target.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def hidden_prefix(target: Path) -> str:
    """How names of temporary files for `target` begin; with what is added to it no longer than names may be."""
    return f".{target.name[:50]}."


def unwritable(target: Path, error: OSError | ValueError) -> FileError:
    """The error that says why `target` was not written."""
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return FileError(
        f"The output file {str(target)!r} must be in a directory that exists and may be written to, not one that "
        f"answers {reason!r}. Nothing was written; choose another path."
    )
