"""Program files: an ``.npz`` archive of arrays and a JSON header, without pickle, written atomically."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from lathe.configs import LatheError
from lathe.configs.archive_headers import ArchiveHeader, OtherVersionError
from lathe.configs.archives import UnreadableArchiveError, read_arrays
from lathe.configs.atomic import atomic_write
from lathe.configs.errors import shown
from lathe.isa.errors import ProgramError

FORM = ArchiveHeader("header", "lathe program", 1)

Built = TypeVar("Built")


def write_archive(path: str | PathLike[str], header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write a program's plain values and arrays atomically."""
    with atomic_write(path) as file:
        np.savez(file, **FORM.with_header(header, arrays))


def read_archive(path: str | PathLike[str], build: Callable[[dict[str, Any], dict[str, Any]], Built]) -> Built:
    """The result of ``build`` on a program's plain values and arrays.

    Raises :class:`ProgramError` for a file that is truncated, foreign or of another version, or whose content ``build``
    refuses.
    """
    if not isinstance(path, str | PathLike):
        raise ProgramError(f"The program file must be a path, not {shown(path)}.")
    source = Path(path)
    try:
        arrays = read_arrays(source)
    except UnreadableArchiveError as error:
        if error.no_file:
            raise ProgramError(
                f"Cannot read program file {source}: {error}. Correct the path or its permissions."
            ) from None
        raise _foreign(source) from None
    if FORM.key not in arrays and "insn_addr" in arrays:
        raise ProgramError(
            f"The file {source} must be a program saved by Lathe, not a raw stream. Run it with `lathe replay`, or "
            "with replay in Python."
        )
    try:
        header = FORM.header_of(arrays)
    except UnreadableArchiveError:
        raise _foreign(source) from None
    except OtherVersionError as error:
        raise ProgramError(
            f"The version of program file {source} must be {FORM.version}, not {error.version!r}. "
            "Compile the program again with this version of Lathe."
        ) from None
    try:
        return build(header, arrays)
    except LatheError as error:
        raise ProgramError(f"The program file {source} must hold a consistent program, and does not. {error}") from None
    except (KeyError, ValueError, TypeError, AttributeError, IndexError):
        raise _foreign(source) from None


def _foreign(path: Path) -> ProgramError:
    return ProgramError(
        f"The file {path} must be a program saved by Lathe, but is another file or truncated. Compile it again."
    )
