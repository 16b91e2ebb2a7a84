"""How accumulators of 32 bits hold values of narrower types."""

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.expr.dtypes import DTYPES


def forms_of(columns: NDArray[np.int64], dtype: str) -> list[NDArray[np.int64]]:
    """What columns of accumulators are as values of a type: as they are, sign- or zero-extended, or in the low bits.

    Columns that are not of a form have numbers there that no value of the type has.
    """
    kind = DTYPES[dtype]
    if kind.bits >= 32:
        return [columns if dtype != "uint32" else columns & 0xFFFFFFFF]
    mask = (1 << kind.bits) - 1
    low = columns & mask
    signed = low - ((low >> (kind.bits - 1)) << kind.bits)
    value = signed if kind.minimum < 0 else low
    nowhere = np.int64(1) << 40
    return [columns, np.where(columns == signed, value, nowhere), np.where(columns == low, value, nowhere), value]


def in_form(form: int, new: NDArray[np.int64], old: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """New values in the form in which the old ones are there (``forms_of``)."""
    mask = (1 << bits) - 1
    low = new & mask
    if form == 0:
        return new if bits < 32 else (new + (1 << 31) & 0xFFFFFFFF) - (1 << 31)
    if form == 1:
        return low - ((low >> (bits - 1)) << bits)
    return low if form == 2 else (old & ~mask) | low
