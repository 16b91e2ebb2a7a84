"""Casts between any two types, around copies, operands and multiplications: refused or right, never wrong."""

from itertools import product

import numpy as np
import pytest
from machines import SHIPPED

import lathe as lt

DTYPES = ["int8", "uint8", "int16", "uint16", "int32"]


def built(output: lt.Tensor, *inputs: lt.Tensor) -> bool:
    """Whether a program builds; if it does, every build here is validated."""
    try:
        program = lt.build(output, [*inputs, output], SHIPPED["vta"])
    except (lt.EmitError, lt.BuildError):
        return False
    arrays = {}
    for tensor in inputs:
        limits = np.iinfo(tensor.dtype)
        values = np.random.default_rng(0).integers(limits.min, limits.max, tensor.shape, endpoint=True)
        arrays[tensor.name] = values.astype(tensor.dtype)
    found = lt.simulate(program, arrays).outputs[output.name]
    np.testing.assert_array_equal(found, lt.reference(output, arrays))
    return True


@pytest.mark.slow
@pytest.mark.parametrize("first", DTYPES)
def test_copies_and_sums_through_two_casts(first):
    count = 0
    for second, third in product(DTYPES, DTYPES):
        A = lt.placeholder((3, 16), first, name="A")
        X = lt.compute((3, 16), lambda i, j, A=A, to=second: A[i, j].astype(to), "X")
        for output in (
            lt.compute((3, 16), lambda i, j, A=A, a=second, b=third: A[i, j].astype(a).astype(b), "B"),
            lt.compute((3, 16), lambda i, j, A=A, a=second, b=third: (A[i, j].astype(a) + 1).astype(b), "B"),
            lt.compute((3, 16), lambda i, j, X=X, b=third: X[i, j].astype(b) + 1, "B"),
        ):
            count += built(output, A)
    assert count > 20


@pytest.mark.parametrize("through", DTYPES)
def test_factors_of_products_through_a_cast(through):
    A, B = lt.placeholder((3, 16), "int8", name="A"), lt.placeholder((16, 16), "int8", name="B")
    k = lt.reduce_axis(16, "k")

    def widened(factor):
        return factor.astype(through).astype("int32")

    factor = lt.compute((3, 16), lambda i, j: lt.sum(widened(A[i, k]) * B[j, k].astype("int32"), axis=k), "C")
    whole = lt.compute(
        (3, 16), lambda i, j: lt.sum(widened(A[i, k].astype("int32") * B[j, k].astype("int32")), axis=k), "C"
    )
    signed = through in ("int8", "int16", "int32")
    assert built(factor, A, B) or not signed
    assert built(whole, A, B) or not signed
