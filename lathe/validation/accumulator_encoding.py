"""Encodings of narrow values in 32-bit accumulators."""

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.expr.dtypes import DTYPES


def decoded_columns(columns: NDArray[np.int64], dtype: str) -> list[NDArray[np.int64]]:
    """Columns of accumulators decoded as a type: exact, sign-extended, zero-extended, and from the low bits alone.

    Where a column is not so encoded, the result is a number that no value of the type has.
    """
    kind = DTYPES[dtype]
    if kind.bits >= 32:
        return [columns if dtype != "uint32" else columns & 0xFFFFFFFF]
    mask = (1 << kind.bits) - 1
    low = columns & mask
    signed = low - ((low >> (kind.bits - 1)) << kind.bits)
    value = signed if kind.minimum < 0 else low
    invalid = np.int64(1) << 40
    return [columns, np.where(columns == signed, value, invalid), np.where(columns == low, value, invalid), value]


def encoded_like(encoding: int, new: NDArray[np.int64], old: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """New values in the encoding (an index into ``decoded_columns``) of the old ones."""
    mask = (1 << bits) - 1
    low = new & mask
    if encoding == 0:
        return new if bits < 32 else (new + (1 << 31) & 0xFFFFFFFF) - (1 << 31)
    if encoding == 1:
        return low - ((low >> (bits - 1)) << bits)
    return low if encoding == 2 else (old & ~mask) | low
