"""Wrap-around arithmetic and shifts, against Python's unbounded integers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lathe.isa import AluOp
from lathe.isa.arithmetic import (
    add,
    alu,
    factor_parts,
    multiply,
    scaled,
    shift_left,
    shift_right,
    shift_right_to_even,
    subtract,
    wrap,
)

INT32 = st.one_of(
    st.integers(-(1 << 31), (1 << 31) - 1), st.sampled_from([-(1 << 31), -1, 0, 1, 31, 32, (1 << 31) - 1])
)


def wrapped(value: int, bits: int) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def shifted(value: int, amount: int) -> int:
    return wrapped(value >> amount if amount >= 0 else value << -amount, 32)


MEANING = {
    AluOp.MIN: min,
    AluOp.MAX: max,
    AluOp.ADD: lambda a, b: wrapped(a + b, 32),
    AluOp.SHR: lambda a, b: shifted(a, max(-64, min(64, b))),
    AluOp.MUL: lambda a, b: wrapped(a * b, 32),
    AluOp.SUB: lambda a, b: wrapped(a - b, 32),
}


@given(st.sampled_from(AluOp), st.lists(st.tuples(INT32, INT32), min_size=1, max_size=20))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_alu_operation_is_the_wrapped_one_of_unbounded_integers(operation: AluOp, pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(values, np.int32) for values in zip(*pairs, strict=True))
    result = alu(operation, a, b)
    assert result.dtype == np.int32
    assert result.tolist() == [MEANING[operation](x, y) for x, y in pairs]
    assert alu(operation, a, pairs[0][1]).tolist() == [MEANING[operation](x, pairs[0][1]) for x, _ in pairs]


@pytest.mark.parametrize("amount", [-(1 << 31), -300, -33, -32, -31, -1, 0, 1, 31, 32, 33, 300, (1 << 31) - 1])
@pytest.mark.parametrize("value", [-(1 << 31), -5, -1, 0, 1, 5, (1 << 31) - 1])
def test_shift_by_any_amount(value: int, amount: int) -> None:
    clipped = max(-64, min(64, amount))
    assert shift_right(np.int32(value), np.int32(amount)) == shifted(value, clipped)
    assert shift_left(np.int32(value), np.int32(amount)) == shifted(value, -clipped)
    assert shift_right(np.array([value], np.int32), amount).tolist() == [shifted(value, clipped)]


def test_amount_of_a_wider_dtype_is_not_cut_to_the_value() -> None:
    assert shift_right(np.array([-100, 100], np.int8), np.array([256, 256], np.int32)).tolist() == [-1, 0]


def test_unsigned_values_shift_logically() -> None:
    assert shift_right(np.array([0x80], np.uint8), np.array([3])).tolist() == [0x10]
    assert shift_left(np.array([0x81], np.uint8), np.array([1])).tolist() == [2]


@given(st.integers(-(1 << 62), 1 << 62), st.integers(1, 64))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_wrap_keeps_the_low_bits(value: int, bits: int) -> None:
    assert int(wrap(np.array([value]), bits)[0]) == wrapped(value, bits)


def test_results_have_the_dtype_of_the_first_operand_and_wrap_in_it() -> None:
    a = np.array([127, -128], np.int8)
    assert add(a, 1).tolist() == [-128, -127]
    assert subtract(a, 1).tolist() == [126, 127]
    assert multiply(a, 2).tolist() == [-2, 0]
    assert add(a, np.int8(1)).dtype == np.int8


@given(st.lists(st.tuples(st.integers(-(1 << 57), 1 << 57), st.integers(0, 63)), min_size=1, max_size=20))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_division_by_a_power_of_two_rounds_to_the_nearest_and_halves_to_the_even(pairs: list[tuple[int, int]]) -> None:
    # Python's `round` of a fraction rounds ties to even.
    values, amounts = (np.array(each, np.int64) for each in zip(*pairs, strict=True))
    expected = [round(Fraction(value, 1 << amount)) for value, amount in pairs]
    assert shift_right_to_even(values, amounts).tolist() == expected
    assert shift_right_to_even(values, pairs[0][1])[0] == expected[0]


@pytest.mark.parametrize("shift", [0, 1, 2, 5, 31, 32, 56, 57, 58, 62, 63])
def test_every_case_of_rounding_to_even(shift: int) -> None:
    half = (1 << shift) // 2
    near = {(whole << shift) + part + end for whole in range(-3, 4) for part in (0, half) for end in (-1, 0, 1)}
    values = sorted(value for value in near if abs(value) <= 1 << 57)
    values += [1 << 57, -(1 << 57), (1 << 57) - 1, 1 - (1 << 57)]
    assert shift_right_to_even(np.array(values), shift).tolist() == [
        round(Fraction(value, 1 << shift)) for value in values
    ]


@pytest.mark.slow
@given(st.lists(st.tuples(INT32, INT32, INT32), min_size=1, max_size=20))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_factor_scales_a_sum_that_wraps_around(rows: list[tuple[int, int, int]]) -> None:
    sums, biases, factors = (np.array(each, np.int32) for each in zip(*rows, strict=True))
    mantissas, shifts = factor_parts(factors)
    assert [(m << 6) + s for m, s in zip(mantissas.tolist(), shifts.tolist(), strict=True)] == factors.tolist()
    assert ((shifts >= 0) & (shifts < 64)).all()
    expected = [wrapped(a + b, 32) * m for (a, b, _), m in zip(rows, mantissas.tolist(), strict=True)]
    assert scaled(sums, biases, mantissas).tolist() == expected
