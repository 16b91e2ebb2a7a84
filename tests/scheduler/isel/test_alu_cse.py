"""Common subexpressions are computed once: ALU operations per vector, and random expressions against NumPy."""

import random

import numpy as np
import pytest
from random_expressions import expression_of_shared_parts
from random_programs import random_inputs
from seeds import check_each
from small_machine import run

from lathe.configs import HardwareConfig, load_config
from lathe.frontend import Expr, Tensor, compute, max, min, placeholder, placeholders
from lathe.scheduler import build, create_schedule
from lathe.sim import simulate_program

VTA, TINY = load_config("vta"), load_config("tiny")

X, Y = placeholder(64, "int32", "X"), placeholder(64, "int32", "Y")
BYTES = placeholder(64, "int8", "bytes")
STORING = 3
"""Shifts between the byte planes that a 32-bit result is stored in."""


def operations(result: Tensor) -> int:
    """ALU operations per vector of 16 values, without those of the store; the outputs are compared with NumPy's."""
    inputs = random_inputs([result], 0)
    s = create_schedule(result)
    run(s, VTA, inputs)
    program = build(s, [*placeholders([result]), result], VTA)
    return simulate_program(program, inputs).counters.alu_operations // 4 - STORING


def test_a_square_of_a_sum_is_one_addition_and_one_multiplication():
    assert operations(compute(64, lambda i: (X[i] + 1) * (X[i] + 1), "R")) == 2


def test_one_node_used_twice_is_the_same():
    def square(i: Expr) -> Expr:
        part = X[i] + 1
        return part * part

    assert operations(compute(64, square, "R")) == 2


def test_the_square_of_a_value_is_computed_in_place():
    assert operations(compute(64, lambda i: X[i] * X[i], "R")) == 1


def test_operands_of_commutative_operations_may_be_in_any_order():
    assert operations(compute(64, lambda i: (X[i] + Y[i]) * (Y[i] + X[i]), "R")) == 2


def test_operands_of_a_difference_may_not():
    """A copy of either operand and two operations each; then the multiplication."""
    assert operations(compute(64, lambda i: (X[i] - Y[i]) * (Y[i] - X[i]), "R")) == 7


def test_a_part_that_is_needed_in_two_places_is_computed_once():
    """The sum (a copy, +), the minimum of a copy of it (2), the maximum in place (1), and their sum (1)."""
    result = compute(64, lambda i: min(X[i] + Y[i], 7) + max(X[i] + Y[i], -7), "R")
    assert operations(result) == 6


def test_parts_of_shared_parts():
    """s = X + Y (2), t = s * X (a copy, *), t and s as operands: max (a copy, op), min in place of t, add."""

    def element(i: Expr) -> Expr:
        return max((X[i] + Y[i]) * X[i], 5) + min((X[i] + Y[i]) * X[i], X[i] + Y[i])

    assert operations(compute(64, element, "R")) == 2 + 2 + 2 + 1 + 1


def test_quotient_and_remainder_share_the_shift():
    """q = X >> 4 (2); 16 q (a copy and a shift); X − 16 q (× −1, +); + q."""
    assert operations(compute(64, lambda i: (X[i] // 16) + (X[i] % 16), "R")) == 7


def test_the_difference_of_equal_parts_is_zero():
    assert operations(compute(64, lambda i: (X[i] * 3) - (X[i] * 3), "R")) == 0


def test_a_shift_by_itself():
    assert operations(compute(64, lambda i: (X[i] + 1) >> (X[i] + 1), "R")) == 3  # a copy, +, >>


def test_values_that_wrap_around_are_shared_as_they_wrap():
    def element(i: Expr) -> Expr:
        wrapped = BYTES[i] * 3
        return wrapped.astype("int32") * wrapped.astype("int32") + (BYTES[i].astype("int32") * 3)

    operations(compute(64, element, "R"))


def check_expressions(seed: int, config: HardwareConfig) -> None:
    generator = random.Random(seed)
    A, B, C = (placeholder(24, dtype, name) for name, dtype in (("A", "int32"), ("B", "int8"), ("C", "int32")))
    result = compute(
        24, lambda i: expression_of_shared_parts(generator, [A[i], B[i].astype("int32"), C[i], A[i] + C[i]]), "R"
    )
    if placeholders([result]):
        run(create_schedule(result), config, random_inputs([result], seed))


@pytest.mark.parametrize("config", [TINY, VTA, TINY.with_(extensions=("alu_sub",))], ids=["tiny", "vta", "alu_sub"])
@pytest.mark.seeds(8, slow=192)
def test_random_expressions(config, seeds):
    check_each(seeds, check_expressions, config)


def check_expressions_of_bytes(seed: int) -> None:
    generator = random.Random(seed)
    A, B = placeholder(24, "int8", "A"), placeholder(24, "int8", "B")

    def element(i: Expr) -> Expr:
        parts = [A[i], B[i], A[i] + B[i]]
        for _ in range(generator.randint(2, 6)):
            lhs, rhs = generator.choice(parts), generator.choice(parts)
            parts.append(
                generator.choice([lhs + rhs, lhs - rhs, lhs * rhs, max(lhs, rhs), lhs >> 2, lhs << 1, lhs * lhs])
            )
        return parts[-1]

    result = compute(24, element, "R")
    inputs = random_inputs([result], seed)
    program = run(create_schedule(result), TINY, inputs)
    assert np.any([segment.role == "output" for segment in program.segments])


@pytest.mark.seeds(8, slow=192)
def test_random_expressions_of_bytes(seeds):
    check_each(seeds, check_expressions_of_bytes)
