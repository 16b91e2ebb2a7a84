"""Arrays where a user gives them."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lathe.configs.errors import LatheError, shown


class InputError(LatheError):
    """Inputs that are not those of the program: missing, unknown, or of another shape or dtype."""


def array_of(value: object, dtype: DTypeLike | None) -> NDArray[Any]:
    """``value`` as an array: a list of integers that ``dtype`` holds as one of this dtype, others as they are.

    An array keeps its dtype, since it is stated there; without ``dtype`` everything gets NumPy's choice. Raises
    ValueError, with what the value is instead, for a ragged list, for integers that the dtype does not hold, and for
    what is no array.
    """
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    try:
        found = np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(f"{shown(value)}, which is ragged") from None
    if found.dtype.kind == "O":
        raise ValueError(shown(value))
    wanted = None if dtype is None else np.dtype(dtype)
    if wanted is None or found.dtype.kind not in "iu" or wanted.kind not in "iu":
        return found
    limits = np.iinfo(wanted)
    strange = found[(found < limits.min) | (found > limits.max)]
    if strange.size:
        raise ValueError(f"a list with {int(strange[0])}, which {wanted} does not hold")
    return found.astype(wanted)
