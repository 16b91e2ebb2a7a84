"""Factors as RESCALE has them: a mantissa and a shift for each channel, made of numbers with a fractional part.

A factor word holds ``shift`` in its bits 0 to 5 and the signed ``mantissa`` in bits 6 to 31; it stands for
mantissa / 2**shift. A row of parameters is [bias, factor word], int32 both.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lathe.configs.integers import integer
from lathe.frontend.dtypes import DTYPES
from lathe.frontend.errors import TensorError, shown

SHIFT_BITS = 6
MOST_SHIFT = (1 << SHIFT_BITS) - 1
MANTISSA_BITS = 32 - SHIFT_BITS
FACTOR_LIMIT = 1 << (MANTISSA_BITS - 1)
"""What the magnitude of a factor must be less than: a mantissa without a shift."""

Ints = NDArray[np.int32]


def rescale_parameters(scale: ArrayLike, bias: ArrayLike = 0, channels: int | None = None) -> Ints:
    """Parameters of ``requantise``: int32 (channels, 2), for each channel [bias, factor word].

    ``scale``, one number or one per channel, is what sums are multiplied by: mantissa / 2**shift with the mantissa
    rounded to the nearest of its 26 bits, and as many of them in use as a shift of at most 63 allows. ``bias``, one
    int32 or one per channel, is added before. One number for all is repeated for ``channels``.

    Raises TensorError for a scale that is not finite or of 2**25 or more, a bias that is no int32, or numbers of
    channels that differ.
    """
    where = "rescale_parameters"
    count = _channels((scale, bias), channels, where)
    mantissa, shift = _mantissas(_scales(scale, count, f"scale of {where}"))
    return np.stack([_biases(bias, count, f"bias of {where}"), _words(mantissa, shift)], axis=-1)


def rescaled_add_parameters(
    scales: Sequence[ArrayLike], biases: Sequence[ArrayLike] = (0, 0), channels: int | None = None
) -> Ints:
    """Parameters of ``rescaled_add``: int32 (channels, 2, 2), for each channel and operand [bias, factor word].

    ``scales`` and ``biases`` are pairs, for the first and the second operand, of what ``rescale_parameters`` takes.
    Both factors of a channel have one shift, that of the greater.
    """
    where = "rescaled_add_parameters"
    for name, given in (("scales", scales), ("biases", biases)):
        if not isinstance(given, Sequence) or len(given) != 2:
            raise TensorError(f"{name} of {where} must be a pair, one for each operand, not {shown(given)}.")
    count = _channels((*scales, *biases), channels, where)
    factors = np.stack([_scales(each, count, f"scale {n} of {where}") for n, each in enumerate(scales)], axis=1)
    mantissa, shift = _mantissas(factors)
    added = np.stack([_biases(each, count, f"bias {n} of {where}") for n, each in enumerate(biases)], axis=1)
    return np.stack([added, _words(mantissa, np.broadcast_to(shift[:, None], mantissa.shape))], axis=-1)


def _channels(given: Sequence[ArrayLike], channels: int | None, where: str) -> int:
    """How many channels there are, by what is given for each of them."""
    found = {len(each) for each in map(np.asarray, given) if each.ndim == 1}
    if channels is not None:
        number = integer(channels)
        if number is None or number < 1:
            raise TensorError(f"channels of {where} must be a positive integer, not {shown(channels)}.")
        found.add(number)
    if len(found) > 1:
        raise TensorError(
            f"channels of {where} must be as many for all that is given, not {' and '.join(map(str, sorted(found)))}."
        )
    return found.pop() if found else 1


def _scales(given: ArrayLike, count: int, where: str) -> NDArray[np.float64]:
    try:
        array = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        array = np.asarray(None)
    if array.dtype != np.float64 or array.ndim > 1:
        raise TensorError(f"{where} must be a number or one per channel, not {shown(given)}.")
    wrong = ~(np.abs(array) < FACTOR_LIMIT)
    if wrong.any():
        channel = int(np.flatnonzero(np.atleast_1d(wrong))[0])
        of = f" of channel {channel}" if array.ndim else ""
        raise TensorError(
            f"{where}{of} must be a finite number of a magnitude below {FACTOR_LIMIT}, not "
            f"{float(np.atleast_1d(array)[channel])}. A factor is at most {FACTOR_LIMIT - 1}, a mantissa of "
            f"{MANTISSA_BITS} bits without a shift."
        )
    return np.broadcast_to(array, (count,))


def _biases(given: ArrayLike, count: int, where: str) -> Ints:
    array = np.asarray(given)
    if array.dtype.kind not in "iu" or array.ndim > 1:
        raise TensorError(f"{where} must be an integer or one per channel, not {shown(given)}.")
    limits = DTYPES["int32"]
    wrong = (array < limits.minimum) | (array > limits.maximum)
    if wrong.any():
        channel = int(np.flatnonzero(np.atleast_1d(wrong))[0])
        of = f" of channel {channel}" if array.ndim else ""
        raise TensorError(f"{where}{of} must be an int32, not {int(np.atleast_1d(array)[channel])}.")
    return np.broadcast_to(array.astype(np.int32), (count,))


def _mantissas(scales: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Mantissas, of the shape of the scales, and a shift per channel: the greatest with which all of its fit."""
    greatest = np.abs(scales).reshape(len(scales), -1).max(axis=1)
    shift = np.minimum(MANTISSA_BITS - 1 - np.frexp(greatest)[1], MOST_SHIFT)
    too_large = np.rint(np.ldexp(greatest, shift)) >= FACTOR_LIMIT  # rounded up to one more bit
    shift = np.maximum(shift - too_large, 0)
    along: tuple[Any, ...] = (slice(None), *(None,) * (scales.ndim - 1))
    mantissa = np.rint(np.ldexp(scales, shift[along])).astype(np.int64)
    return np.clip(mantissa, 1 - FACTOR_LIMIT, FACTOR_LIMIT - 1), shift.astype(np.int64)


def _words(mantissa: NDArray[np.int64], shift: NDArray[np.int64]) -> Ints:
    return (mantissa * (1 << SHIFT_BITS) + shift).astype(np.int32)
