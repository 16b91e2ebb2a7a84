"""Conversion of user arguments to arrays."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lathe.configs.errors import LatheError, shown


class InputError(LatheError):
    """Inputs that do not match the program's: missing, unknown, or of another shape or dtype."""


def array_of(value: object, dtype: DTypeLike | None) -> NDArray[Any]:
    """``value`` as an array; a list of integers gets ``dtype`` if ``dtype`` can represent all of them.

    An array keeps its own dtype; without ``dtype``, NumPy chooses one. Raises ValueError for a ragged list, for
    integers out of the range of ``dtype``, and for what is no array; its text describes the value ("not ..." in a
    message).
    """
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{shown(value)}, which is ragged") from None
    if array.dtype.kind == "O":
        raise ValueError(shown(value))
    target = None if dtype is None else np.dtype(dtype)
    if target is None or array.dtype.kind not in "iu" or target.kind not in "iu":
        return array
    limits = np.iinfo(target)
    outside = array[(array < limits.min) | (array > limits.max)]
    if outside.size:
        raise ValueError(f"a list with {int(outside[0])}, which {target} cannot represent")
    return array.astype(target)
