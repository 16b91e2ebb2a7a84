"""One program, one schedule, built for many extents: every build equals NumPy."""

import numpy as np
import pytest
from checking import random_array
from machines import SHIPPED

import lathe as lt
from lathe.frontend import placeholders

N = lt.parameter("N")
M = lt.parameter("M", minimum=4, typical=40)


def product():
    A, W = lt.placeholder((N, M), "int8", name="A"), lt.placeholder((20, M), "int8", name="W")
    return lt.requantise(lt.matmul(A, W, transpose_b=True, name="C"), 4, name="D")


def untouched(_):
    pass


def by_hand(s):
    D = s.outputs[0]
    C = s.stages[-2].tensor
    made = s.cache_write(D, "acc")
    outer, _ = s[D].split(s[D].axis[0], factor=16)
    for tensor in (made, C):
        s[tensor].set_scope("acc")
        s[tensor].compute_at(s[D], outer)
    s[C].split(s[C].reduce_axis[0], factor=16)


@pytest.mark.sample(2)
@pytest.mark.parametrize("numbers", [(100, 64), (7, 17), (1, 4), (33, 40)])
@pytest.mark.parametrize("schedule", [untouched, by_hand])
def test_a_product_of_any_size(schedule, numbers):
    D = product()
    s = lt.create_schedule(D)
    schedule(s)
    given = dict(zip(("N", "M"), numbers, strict=True))
    bound = lt.bind(D, given)
    inputs = {tensor.name: random_array(tensor, np.random.default_rng(0)) for tensor in placeholders([bound])}
    expected = lt.reference(D, inputs, parameters=given)
    assert np.array_equal(lt.interpret(s, inputs, parameters=given)["D"], expected)
    program = lt.build(s, [*placeholders([D]), D], SHIPPED["vta"], parameters=given, check=True)
    assert lt.verify(program) == []
    result = lt.simulate(program, inputs)
    assert np.array_equal(result.outputs["D"], expected)


@pytest.mark.parametrize("size", [4, 9, 20])
def test_a_triangle_of_any_size(size):
    A = lt.placeholder((M, M), "int8", name="A")
    T = lt.compute((M, M), lambda i, j: A[M - 1 - i, j], name="T", where=lambda i, j: j <= i)
    program = lt.build(T, [A, T], SHIPPED["tiny"], parameters={"M": size})
    values = np.random.default_rng(1).integers(-128, 128, (size, size)).astype(np.int8)
    assert np.array_equal(lt.simulate(program, {"A": values}).outputs["T"], np.tril(values[::-1]))
