"""Encoding of arrays and long texts in a page: compressed bytes in base64, decoded by a script of the page."""

import base64
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32)
"""The types that an integer array may be stored in, the smallest first."""
LINES = "lines"


def column(values: NDArray[np.generic]) -> dict[str, str]:
    """A one-dimensional array as plain values, in the format that plotly.js reads, too.

    Integers are stored in the smallest type that holds all of them, those beyond 32 bits as float64, which is exact up
    to 2**53; all other types are stored as float64.
    """
    name, content = _bytes_of(values)
    return {"dtype": name, "bdata": base64.b64encode(content).decode()}


def packed(values: NDArray[np.generic]) -> dict[str, str]:
    """A compressed column for large arrays, which ``lathe.load`` decodes in the page."""
    name, content = _bytes_of(values)
    return {"dtype": name, "deflated": base64.b64encode(zlib.compress(content)).decode()}


def packed_lines(lines: Sequence[str]) -> dict[str, str]:
    """Compressed texts; line breaks inside a text become spaces."""
    text = "\n".join(" ".join(line.splitlines()) if "\n" in line else line for line in lines)
    return {"dtype": LINES, "deflated": base64.b64encode(zlib.compress(text.encode())).decode()}


def _bytes_of(values: NDArray[np.generic]) -> tuple[str, bytes]:
    """The name of the storage type, and the bytes of an array in it."""
    stored = np.ascontiguousarray(values)
    if stored.dtype.kind in "biu":
        low, high = (int(stored.min()), int(stored.max())) if stored.size else (0, 0)
        fits = (kind for kind in INTEGERS if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
        stored = stored.astype(next(fits, np.float64))
    else:
        stored = stored.astype(np.float64)
    name = f"{stored.dtype.kind}{stored.dtype.itemsize}"
    return name, stored.astype(stored.dtype.newbyteorder("<")).tobytes()
