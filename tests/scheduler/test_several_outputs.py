"""Loops of a computation with several outputs: each output is computed in loops like these, one after the other."""

import numpy as np
from random_programs import random_inputs

from lathe.configs import load_config
from lathe.frontend import Tensor, compute, max, placeholder, reduce_axis, reference, sum
from lathe.isa import verify
from lathe.scheduler import Schedule, build, create_schedule
from lathe.sim import simulate_program

CONFIG = load_config("vta")
A = placeholder((60, 48), "int8", "A")


def two_maps() -> tuple[Tensor, ...]:
    return compute((60, 48), lambda i, j: (A[i, j] + 1, max(A[59 - i, j], 3)), name="M")


def two_reductions() -> tuple[Tensor, ...]:
    k = reduce_axis(48, "k")
    wide = lambda i: A[i, k].astype("int32")  # noqa: E731
    return compute((60,), lambda i: (sum(wide(i), axis=k), max(wide(i), axis=k)), name="R")


def check(schedule: Schedule) -> None:
    outputs = list(schedule.outputs)
    inputs = random_inputs(outputs, seed=0)
    program = build(schedule, [A, *outputs], CONFIG, check=True)
    assert verify(program) == []
    found, expected = simulate_program(program, inputs).outputs, reference(outputs, inputs)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_data_loops_that_do_not_divide_and_change_places():
    X, Y = two_maps()
    s = create_schedule([X, Y])
    _, ii = s[X].split(s[X].axis[0], factor=16)
    s[X].reorder(s[X].axis[-1], ii)
    check(s)


def test_loops_fused_and_unrolled():
    X, Y = two_maps()
    s = create_schedule([X, Y])
    s[X].unroll(s[X].split(s[X].fuse(*s[X].axis), factor=96)[1])
    check(s)


def test_reduction_loops_outside_data_loops():
    P, Q = two_reductions()
    s = create_schedule([P, Q])
    _, ii = s[P].split(s[P].axis[0], factor=7)
    ko, _ = s[P].split("k", factor=5)
    s[P].reorder(ko, ii)
    check(s)
