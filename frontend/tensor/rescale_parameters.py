"""Parameters of RESCALE: real scales encoded as a mantissa and a shift per channel.

A factor word holds ``shift`` in bits 0 to 5 and the signed ``mantissa`` in bits 6 to 31; it stands for
mantissa / 2**shift. A row of parameters is [bias, factor word], both int32.
"""

import math
import numbers
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lathe.configs.host_memory import check_fits_memory, within_memory
from lathe.configs.integers import integer
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.errors import TensorError, shown

SHIFT_BITS = 6
MOST_SHIFT = (1 << SHIFT_BITS) - 1
MANTISSA_BITS = 32 - SHIFT_BITS
FACTOR_LIMIT = 1 << (MANTISSA_BITS - 1)
"""Exclusive upper limit of the magnitude of a factor: that of a mantissa with shift 0."""

BYTES_OF_WORD = 64
"""Upper limit of the memory for computing a factor word and its bias: several arrays of 8-byte values."""

Ints = NDArray[np.int32]
_REAL = (numbers.Real, Decimal)
_UNREAL = (bool, np.bool_, np.timedelta64)


def rescale_parameters(scale: ArrayLike, bias: ArrayLike = 0, channels: int | None = None) -> Ints:
    """Parameters of ``requantise``: int32 (channels, 2), for each channel [bias, factor word].

    ``scale``, one number or one per channel, is the factor of the sums, encoded as mantissa / 2**shift: the mantissa is
    rounded to nearest, in as many of its 26 bits as a shift of at most 63 allows. ``bias``, one int32 or one per
    channel, is added before scaling. Single numbers are repeated for ``channels``.

    Raises TensorError for a scale that is not finite or not below 2**25 in magnitude, a bias that is not an int32,
    non-numeric values, or different numbers of channels, and MemoryLimitError if the parameters do not fit in memory.
    """
    where = "rescale_parameters"
    scales, biases = _scales(scale, f"scale of {where}"), _biases(bias, f"bias of {where}")
    count = _channels((scales, biases), channels, where)
    with _memory_for(count, where):
        mantissa, shift = _mantissas(np.broadcast_to(scales, (count,)))
        return np.stack([np.broadcast_to(biases, (count,)), _words(mantissa, shift)], axis=-1)


def rescaled_add_parameters(
    scales: Sequence[ArrayLike], biases: Sequence[ArrayLike] = (0, 0), channels: int | None = None
) -> Ints:
    """Parameters of ``rescaled_add``: int32 (channels, 2, 2), for each channel and operand [bias, factor word].

    ``scales`` and ``biases`` are pairs, for the first and the second operand, of what ``rescale_parameters`` takes.
    Both factors of a channel share a shift, that of the larger factor.
    """
    where = "rescaled_add_parameters"
    for name, given in (("scales", scales), ("biases", biases)):
        if not isinstance(given, Sequence) or isinstance(given, str | bytes) or len(given) != 2:
            raise TensorError(f"{name} of {where} must be a pair, one for each operand, not {shown(given)}.")
    factors = [_scales(each, f"scale {n} of {where}") for n, each in enumerate(scales)]
    added = [_biases(each, f"bias {n} of {where}") for n, each in enumerate(biases)]
    count = _channels((*factors, *added), channels, where)
    with _memory_for(2 * count, where):
        mantissa, shift = _mantissas(np.stack([np.broadcast_to(each, (count,)) for each in factors], axis=1))
        words = _words(mantissa, np.broadcast_to(shift[:, None], mantissa.shape))
        return np.stack([np.stack([np.broadcast_to(each, (count,)) for each in added], axis=1), words], axis=-1)


def _channels(given: Sequence[NDArray[Any]], channels: int | None, where: str) -> int:
    """The number of channels, from the arguments that are given per channel."""
    counts = {len(each) for each in given if each.ndim}
    if channels is not None:
        number = integer(channels)
        if number is None or number < 1:
            raise TensorError(f"channels of {where} must be a positive integer, not {shown(channels)}.")
        counts.add(number)
    if len(counts) > 1:
        raise TensorError(
            f"channels of {where} must be the same for all arguments, not {' and '.join(map(str, sorted(counts)))}."
        )
    return counts.pop() if counts else 1


@contextmanager
def _memory_for(words: int, where: str) -> Iterator[None]:
    """A context that allocates ``words`` factor words. Raises MemoryLimitError if they do not fit in memory."""
    check_fits_memory(BYTES_OF_WORD * words, where)
    with within_memory(where):
        yield


def _numbers(given: ArrayLike) -> NDArray[Any] | None:
    """The argument as an array of real numbers, () or (channels,), maybe of Python objects; None if it is not numeric.

    Booleans, strings, dates and arrays with masked elements are not numeric.
    """
    try:
        array = np.asarray(given, None if isinstance(given, np.ndarray) else object)
    except (TypeError, ValueError, RecursionError):
        return None
    if isinstance(given, np.ma.MaskedArray) or array.ndim > 1 or not array.size:
        return None
    if array.dtype != object:
        return array if array.dtype.kind in "iuf" else None
    plain = [each[()] if type(each) is np.ndarray and not each.ndim else each for each in array.flat]
    if not all(isinstance(each, _REAL) and not isinstance(each, _UNREAL) for each in plain):
        return None
    return np.array(plain, object).reshape(array.shape)


def _scales(given: ArrayLike, where: str) -> NDArray[np.float64]:
    """Scales as float64, () or (channels,)."""
    found = _numbers(given)
    if found is None:
        raise TensorError(f"{where} must be a number or one per channel, not {shown(given)}.")
    if found.dtype == object:
        found = np.array([_as_float(each) for each in found.flat]).reshape(found.shape)
    with np.errstate(over="ignore"):  # inf is beyond the limit, too
        array = found.astype(np.float64)
    wrong = ~(np.abs(array) < FACTOR_LIMIT)
    if wrong.any():
        channel = int(np.flatnonzero(np.atleast_1d(wrong))[0])
        of = f" of channel {channel}" if array.ndim else ""
        raise TensorError(
            f"{where}{of} must be a finite number of a magnitude below {FACTOR_LIMIT}, not "
            f"{float(np.atleast_1d(array)[channel])}. A factor is at most {FACTOR_LIMIT - 1}, a mantissa of "
            f"{MANTISSA_BITS} bits without a shift."
        )
    return array


def _as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
    except ValueError:  # a signalling NaN of Decimal
        return math.nan


def _biases(given: ArrayLike, where: str) -> Ints:
    """Biases as int32, () or (channels,)."""
    array = _numbers(given)
    whole = array is not None and array.dtype.kind in "iuO"
    if array is not None and array.dtype == object:
        whole = all(integer(each) is not None for each in array.flat)
    if array is None or not whole:
        raise TensorError(f"{where} must be an integer or one per channel, not {shown(given)}.")
    limits = DTYPES["int32"]
    wrong = (array < limits.minimum) | (array > limits.maximum)
    if np.any(wrong):
        channel = int(np.flatnonzero(np.atleast_1d(wrong))[0])
        of = f" of channel {channel}" if array.ndim else ""
        raise TensorError(f"{where}{of} must be an int32, not {shown(int(np.atleast_1d(array)[channel]))}.")
    return array.astype(np.int32)


def _mantissas(scales: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Mantissas, of the shape of the scales, and a shift per channel: the largest with which all its mantissas fit."""
    greatest = np.abs(scales).reshape(len(scales), -1).max(axis=1)
    shift = np.minimum(MANTISSA_BITS - 1 - np.frexp(greatest)[1], MOST_SHIFT)
    too_large = np.rint(np.ldexp(greatest, shift)) >= FACTOR_LIMIT  # rounding needs one more bit
    shift = np.maximum(shift - too_large, 0)
    along: tuple[Any, ...] = (slice(None), *(None,) * (scales.ndim - 1))
    mantissa = np.rint(np.ldexp(scales, shift[along])).astype(np.int64)
    return np.clip(mantissa, 1 - FACTOR_LIMIT, FACTOR_LIMIT - 1), shift.astype(np.int64)


def _words(mantissa: NDArray[np.int64], shift: NDArray[np.int64]) -> Ints:
    return (mantissa * (1 << SHIFT_BITS) + shift).astype(np.int32)
