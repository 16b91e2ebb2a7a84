"""NumPy's .npz archives: array names are unrestricted when written, contents are untrusted when read."""

import io
import os
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lathe.configs.atomic import atomic_write

_SUFFIX = ".npy"  # of an archive's members


class UnreadableArchiveError(Exception):
    """An archive that cannot be read, with the reason; the caller adds what the archive should be.

    ``no_file`` is true if the file cannot be opened, false if its content is wrong.
    """

    def __init__(self, reason: str, *, no_file: bool = False) -> None:
        super().__init__(reason)
        self.no_file = no_file


def read_arrays(path: str | os.PathLike[str], names: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of an archive by name, restricted to ``names`` if given; nothing in the file is executed.

    Checks each member's checksum, and that an array has exactly the bytes that its header states. Raises
    :class:`UnreadableArchiveError`.
    """
    try:
        with Path(path).open("rb") as file:
            return _arrays_of(file, names)
    except OSError as error:
        # Seeking in a pipe raises an OSError of Python's own, which has no strerror.
        reason = error.strerror
        raise UnreadableArchiveError(reason or "it is no .npz archive", no_file=reason is not None) from None
    except ValueError as error:  # a path with a null character
        raise UnreadableArchiveError(str(error), no_file=True) from None


def _arrays_of(file: Any, names: Collection[str] | None) -> dict[str, NDArray[Any]]:
    # zipfile, the decompressors and NumPy have no documented list of errors for damaged files: besides their own they
    # raise those of struct, tokenize, zlib, lzma and Python's parser, RuntimeError, MemoryError and more.
    try:
        archive = zipfile.ZipFile(file)
        members = archive.namelist()
    except Exception:
        raise UnreadableArchiveError("it is no .npz archive") from None
    arrays = {}
    for member in members:
        name = member.removesuffix(_SUFFIX)
        if names is not None and name not in names:
            continue
        try:
            content = io.BytesIO(archive.read(member))  # checks its checksum
            array = np.lib.format.read_array(content, allow_pickle=False)
            rest = content.read(1)
        except Exception:
            rest = b"?"
        if rest:
            raise UnreadableArchiveError(f"its array {name!r} holds Python objects, or is damaged")
        arrays[name] = array
    return arrays


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, ArrayLike]) -> None:
    """Write a compressed archive atomically, with the same bytes for the same arrays.

    Unlike numpy.savez, which takes arrays as keyword arguments, it accepts the name "file". Raises FileError.
    """
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(name + _SUFFIX, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
