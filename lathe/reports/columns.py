"""Arrays and long texts in a page: compressed bytes in base64, which a browser makes typed arrays and lines of."""

import base64
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32)
"""What an array of whole numbers may become, the smallest first."""
LINES = "lines"


def column(values: NDArray[np.generic]) -> dict[str, str]:
    """A one-dimensional array as plain values, in the form that plotly.js takes as well.

    Whole numbers are kept in as few bytes as hold all of them, and beyond 32 bits as float64, which is exact up to
    2**53; all else is float64.
    """
    name, content = _bytes_of(values)
    return {"dtype": name, "bdata": base64.b64encode(content).decode()}


def packed(values: NDArray[np.generic]) -> dict[str, str]:
    """The same compressed, for arrays of many numbers; ``lathe.load`` in a page reads it."""
    name, content = _bytes_of(values)
    return {"dtype": name, "deflated": base64.b64encode(zlib.compress(content)).decode()}


def packed_lines(lines: Sequence[str]) -> dict[str, str]:
    """Texts, compressed; each is one line, whatever was in it."""
    text = "\n".join(" ".join(line.splitlines()) if "\n" in line else line for line in lines)
    return {"dtype": LINES, "deflated": base64.b64encode(zlib.compress(text.encode())).decode()}


def _bytes_of(values: NDArray[np.generic]) -> tuple[str, bytes]:
    """The name of a type in a browser, and an array's bytes in it."""
    kept = np.ascontiguousarray(values)
    if kept.dtype.kind in "biu":
        low, high = (int(kept.min()), int(kept.max())) if kept.size else (0, 0)
        fits = (kind for kind in INTEGERS if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
        kept = kept.astype(next(fits, np.float64))
    else:
        kept = kept.astype(np.float64)
    name = f"{kept.dtype.kind}{kept.dtype.itemsize}"
    return name, kept.astype(kept.dtype.newbyteorder("<")).tobytes()
