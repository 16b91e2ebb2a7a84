"""Differences on machines with and without ALU operation SUB: the instructions, and the values."""

from collections.abc import Callable

import numpy as np
import pytest
from random_programs import random_inputs
from small_machine import run

from lathe.configs import load_config
from lathe.frontend import Expr, Tensor, compute, max, placeholder, placeholders
from lathe.isa import Alu, AluOp
from lathe.scheduler import build, create_schedule

LATHE16 = load_config("lathe16")
X, Y = placeholder(64, "int32", "X"), placeholder(64, "int32", "Y")


def operations(body: Callable[[Expr, Expr], Expr], *extensions: str) -> list[str]:
    """The ALU operations of an int8 result, in order; outputs are compared with the interpreter's and NumPy's."""
    config = LATHE16.with_(extensions=extensions, par_buffer_bytes=0, lut_buffer_bytes=0)
    result: Tensor = compute(64, lambda i: body(X[i], Y[i]).astype("int8"), "R")
    s = create_schedule(result)
    run(s, config, random_inputs([result], 0))
    program = build(s, [*placeholders([result]), result], config)
    return [AluOp(each.alu_opcode).name.lower() for each in program.instructions if isinstance(each, Alu)]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("body", "without", "with_it"),
    [
        # The result is computed in place of an operand that is dead afterwards; a further `add` copies the other one.
        (lambda x, y: x - y, ["mul", "add"], ["sub"]),
        (lambda x, y: (x >> 1) - y, ["mul", "add", "shr", "add"], ["shr", "sub"]),
        (lambda x, y: (x >> 1) - (y * 3), ["mul", "mul", "add", "shr", "add"], ["shr", "add", "mul", "sub"]),
        (lambda x, y: x - (y >> 1), ["shr", "mul", "add"], ["shr", "mul", "add"]),  # no copy of x, no temporaries
        (lambda x, _: x - 3, ["add"], ["add"]),
        (lambda x, _: x - -32768, ["add", "mul", "add"], ["sub"]),  # 32768 does not fit an immediate
        (
            lambda x, y: max(x - y, y - x),
            ["add", "mul", "add", "add", "mul", "add", "max"],
            ["add", "sub", "add", "sub", "max"],
        ),
    ],
)
def test_a_difference_takes_one_operation_where_the_machine_has_it(
    body: Callable[[Expr, Expr], Expr], without: list[str], with_it: list[str]
) -> None:
    found = operations(body), operations(body, "alu_sub")
    assert found == (without, with_it)


def test_differences_of_the_ends_of_int32_wrap_around() -> None:
    result = compute(64, lambda i: X[i] - Y[i], "R")
    ends = np.array([-(1 << 31), (1 << 31) - 1, 0, -1], np.int32)
    run(create_schedule(result), LATHE16, {"X": np.repeat(ends, 16), "Y": np.tile(ends, 16)})
