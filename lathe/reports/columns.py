"""Arrays in a page: bytes in base64, which a browser makes typed arrays of; a tenth of what lists of numbers take."""

import base64

import numpy as np
from numpy.typing import NDArray

INTEGERS = (np.uint8, np.uint16, np.int32)
"""What an array of whole numbers may become, the smallest first."""


def column(values: NDArray[np.generic]) -> dict[str, str]:
    """A one-dimensional array as plain values, in the form that plotly.js takes as well.

    Whole numbers are kept in as few bytes as hold all of them, and beyond 32 bits as float64, which is exact up to
    2**53; all else is float64.
    """
    kept = np.ascontiguousarray(values)
    if kept.dtype.kind in "biu":
        low, high = (int(kept.min()), int(kept.max())) if kept.size else (0, 0)
        fits = (kind for kind in INTEGERS if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
        kept = kept.astype(next(fits, np.float64))
    else:
        kept = kept.astype(np.float64)
    name = f"{kept.dtype.kind}{kept.dtype.itemsize}"
    return {"dtype": name, "bdata": base64.b64encode(kept.astype(kept.dtype.newbyteorder("<")).tobytes()).decode()}
