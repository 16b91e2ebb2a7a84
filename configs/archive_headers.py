"""Archive headers: an array with the file's format and version, and its plain values as JSON."""

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lathe.configs.archives import UnreadableArchiveError, read_arrays

Loaded = TypeVar("Loaded")


class OtherVersionError(Exception):
    """A header of the right format in another version, ``version``; the caller adds what to do."""

    def __init__(self, version: object) -> None:
        super().__init__(f"version {version!r}")
        self.version = version


@dataclass(frozen=True)
class ArchiveHeader:
    """The header of one kind of file: the array ``key`` holds its ``format`` and its ``version``.

    ``key`` identifies the kind of archive: no other kind has an array of this name.
    """

    key: str
    format: str
    version: int

    def with_header(self, values: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays with a header that holds the format, the version and plain values."""
        header = json.dumps({"format": self.format, "version": self.version, **values}).encode()
        return {**arrays, self.key: np.frombuffer(header, np.uint8)}

    def matches(self, path: str | os.PathLike[str]) -> bool:
        """Whether a file is an archive with such a header; False for unreadable files."""
        try:
            return bool(read_arrays(path, (self.key,)))
        except UnreadableArchiveError:
            return False

    def header_of(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """The plain values of a header. Raises UnreadableArchiveError without one, and OtherVersionError."""
        try:
            header = json.loads(arrays[self.key].tobytes())
            format_name, version = header["format"], header["version"]
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
            raise UnreadableArchiveError(f"it has no header of a {self.format}") from None
        if format_name != self.format:
            raise UnreadableArchiveError(f"it has no header of a {self.format}")
        if version != self.version:
            raise OtherVersionError(version)
        return dict(header)


def save_to_bytes(save: Callable[[Path], object]) -> bytes:
    """The bytes of the file that ``save`` writes, for embedding in another file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "embedded.npz"
        save(path)
        return path.read_bytes()


def load_from_bytes(content: bytes, load: Callable[[Path], Loaded]) -> Loaded:
    """The result of ``load`` on a file with these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "embedded.npz"
        path.write_bytes(content)
        return load(path)
