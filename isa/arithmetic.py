"""Lathe's integer arithmetic: two's complement with wrap-around, and shifts in both directions.

Everything that computes (executable semantics, simulator, frontend, RTL tests) uses these definitions. Functions take
arrays or scalars of integer dtypes and return arrays of the first operand's dtype.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lathe.isa.table import AluOp

Integers = NDArray[Any]


def wrap(values: ArrayLike, bits: int) -> Integers:
    """The low ``bits`` (1 to 64) of integers, read as two's complement, in the smallest dtype that represents them."""
    assert 1 <= bits <= 64, f"bits must be from 1 to 64, not {bits}"
    array = np.asarray(values)
    if array.dtype.kind == "b":
        array = array.astype(np.int8)
    assert array.dtype.kind in "iu", f"{array.dtype} is not an integer dtype"
    size = next(size for size in (8, 16, 32, 64) if size >= bits)
    cut = array.astype(f"i{size // 8}")  # NumPy's conversion between integer dtypes keeps the low bits.
    if size == bits:
        return cut
    unused = size - bits
    return np.asarray(np.right_shift(np.left_shift(cut, unused), unused))


def add(a: ArrayLike, b: ArrayLike) -> Integers:
    """a + b, wrapping around."""
    left, right = _operands(a, b)
    return np.asarray(np.add(left, right))


def subtract(a: ArrayLike, b: ArrayLike) -> Integers:
    """a − b, wrapping around."""
    left, right = _operands(a, b)
    return np.asarray(np.subtract(left, right))


def multiply(a: ArrayLike, b: ArrayLike) -> Integers:
    """a · b, wrapping around."""
    left, right = _operands(a, b)
    return np.asarray(np.multiply(left, right))


def minimum(a: ArrayLike, b: ArrayLike) -> Integers:
    """The smaller of a and b, where b is wrapped to a's dtype first."""
    left, right = _operands(a, b)
    return np.asarray(np.minimum(left, right))


def maximum(a: ArrayLike, b: ArrayLike) -> Integers:
    """The larger of a and b, where b is wrapped to a's dtype first."""
    left, right = _operands(a, b)
    return np.asarray(np.maximum(left, right))


def shift_right(a: ArrayLike, amount: ArrayLike) -> Integers:
    """a shifted right by ``amount``, arithmetically if a is signed; a negative amount shifts left.

    Right shifts by the width of ``a`` or more give 0 or −1 by sign, such left shifts give 0.
    """
    left, amounts = _shift_operands(a, amount)
    # NumPy defines shifts by the dtype's width or more: the sign to the right, 0 to the left.
    if amounts.ndim == 0:
        shift = np.right_shift if amounts >= 0 else np.left_shift
        return np.asarray(shift(left, np.abs(amounts).astype(left.dtype)))
    # For each value one of the two amounts is 0, so the order of the shifts does not matter.
    right = np.right_shift(left, np.maximum(amounts, 0).astype(left.dtype))
    return np.asarray(np.left_shift(right, np.negative(np.minimum(amounts, 0)).astype(left.dtype)))


def shift_left(a: ArrayLike, amount: ArrayLike) -> Integers:
    """a shifted left by ``amount``; a negative amount shifts right. The mirror of :func:`shift_right`."""
    left, amounts = _shift_operands(a, amount)
    return shift_right(left, np.negative(amounts))


def shift_right_to_even(a: ArrayLike, amount: ArrayLike) -> Integers:
    """Signed a divided by 2**amount, rounded to nearest, ties to even; a negative amount shifts left.

    The result is exact for every amount; from the width of ``a`` on it is 0.
    """
    left, amounts = _shift_operands(a, amount)
    last = left.dtype.itemsize * 8 - 1
    shift = np.clip(amounts, 1, last).astype(left.dtype)
    down = np.right_shift(left, shift)
    one = left.dtype.type(1)
    rest = np.bitwise_and(left, np.invert(np.left_shift(~left.dtype.type(0), shift)))
    half = np.left_shift(one, shift - one)
    up = (rest > half) | ((rest == half) & ((down & one) == one))
    rounded = np.where(amounts > last, left.dtype.type(0), down + up.astype(left.dtype))
    return np.where(amounts > 0, rounded, shift_right(left, np.minimum(amounts, 0))).astype(left.dtype)


MANTISSA_BITS, SHIFT_BITS = 26, 6
"""Bits of the two fields of a 32-bit factor, whose value is mantissa / 2 ** shift; the shift is in the low bits."""


def factor_parts(factors: ArrayLike) -> tuple[Integers, Integers]:
    """Mantissas, from -2**25 to 2**25 - 1, and shifts, from 0 to 63, of int32 factors; both int64."""
    words = np.asarray(factors, np.int64)
    return np.asarray(words >> SHIFT_BITS), np.asarray(words & ((1 << SHIFT_BITS) - 1))


def scaled(sums: ArrayLike, biases: ArrayLike, mantissas: ArrayLike) -> Integers:
    """(sums + biases, wrapping around at 32 bits) · mantissas: int64, at most 2**56 in magnitude."""
    return np.asarray(add(np.asarray(sums, np.int32), biases).astype(np.int64) * np.asarray(mantissas, np.int64))


_OPERATIONS = {
    AluOp.MIN: minimum,
    AluOp.MAX: maximum,
    AluOp.ADD: add,
    AluOp.SHR: shift_right,
    AluOp.MUL: multiply,
    AluOp.SUB: subtract,
}


def alu(operation: AluOp, a: ArrayLike, b: ArrayLike) -> Integers:
    """The result of an ALU operation on accumulator values ``a`` and second operands ``b``."""
    return _OPERATIONS[operation](a, b)


def _operands(a: ArrayLike, b: ArrayLike) -> tuple[Integers, Integers]:
    """Both operands in the first one's dtype, to which the second one is wrapped."""
    left = np.asarray(a)
    assert left.dtype.kind in "iu", f"{left.dtype} is not an integer dtype"
    right = np.asarray(b)
    if right.dtype != left.dtype:
        assert right.dtype.kind in "iub", f"{right.dtype} is not an integer dtype"
        right = right.astype(left.dtype)
    return left, right


def _shift_operands(a: ArrayLike, amount: ArrayLike) -> tuple[Integers, NDArray[np.int8]]:
    """The value, and the amount clamped to the value's width, beyond which all amounts give the same result."""
    left = np.asarray(a)
    amounts = np.asarray(amount)
    assert left.dtype.kind in "iu", f"{left.dtype} is not an integer dtype"
    assert amounts.dtype.kind in "iu", f"{amounts.dtype} is not an integer dtype"
    width = left.dtype.itemsize * 8
    lowest = max(-width, int(np.iinfo(amounts.dtype).min))
    return left, np.clip(amounts, lowest, width).astype(np.int8)
