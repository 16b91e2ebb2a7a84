"""Integer arithmetic, defined once: wrap-around at a width, and shifts of any amount.

Everything in Lathe that computes with integers (the NumPy meaning of tensor programs, the meaning of instructions, the
simulator) uses these definitions or is tested against them. Addition, subtraction and multiplication are those of
NumPy's integer types, which wrap around at their width.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

_WIDEST = 64


def wrap(value: npt.ArrayLike, bits: int) -> Array:
    """``value`` reduced to a signed integer of ``bits`` bits: the number congruent to it modulo ``2**bits``.

    Returns int64 for any width from 1 to 64.
    """
    spare = _WIDEST - bits
    return np.asarray((np.asarray(value, np.int64) << spare) >> spare)


def shift_right(value: npt.ArrayLike, amount: npt.ArrayLike) -> Array:
    """``value`` shifted right by ``amount``, both of one NumPy integer dtype, which is also the result's.

    A right shift rounds down: by the width of the dtype or more it leaves 0 or −1 by sign. A negative amount shifts
    left, which wraps around: by the width or more it leaves 0.
    """
    return _shifted(np.asarray(value), np.asarray(amount), right=True)


def shift_left(value: npt.ArrayLike, amount: npt.ArrayLike) -> Array:
    """``value`` shifted left by ``amount``; a negative amount shifts right. The inverse view of ``shift_right``."""
    return _shifted(np.asarray(value), np.asarray(amount), right=False)


def _shifted(value: Array, amount: Array, right: bool) -> Array:
    # NumPy's shifts by the width of the dtype or more, up to its largest amount, give what is wanted here; it is only
    # negative amounts that it leaves open. Amounts are clipped first, because the negative of the smallest wraps.
    forward, backward = (np.right_shift, np.left_shift) if right else (np.left_shift, np.right_shift)
    if amount.dtype.kind == "u" or (amount.size and amount.min() >= 0):
        return np.asarray(forward(value, amount))
    ahead = forward(value, np.maximum(amount, 0))
    back = backward(value, -np.clip(amount, -_WIDEST, 0))
    return np.asarray(np.where(amount >= 0, ahead, back))
