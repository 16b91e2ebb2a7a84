"""Non-rectangular domains on the RTL: values outside are zero; bits and cycles equal the simulator's."""

import numpy as np
import pytest

import lathe as lt

CONFIG = lt.load_config("tiny")


@pytest.mark.parametrize("where", [lambda i, j: j <= i, lambda i, j: (j < 2) | (i + j > 9), lambda i, j: i * j < 12])
def test_a_domain_runs_on_the_rtl(where):
    A = lt.placeholder((7, 6), "int8", name="A")
    B = lt.placeholder((6, 6), "int8", name="B")
    k = lt.reduce_axis(6, name="k")
    T = lt.compute(
        (7, 6),
        lambda i, j: lt.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k, where=k <= i),
        name="T",
        where=where,
    )
    rng = np.random.default_rng(5)
    inputs = {each.name: rng.integers(-128, 128, each.shape).astype(np.int8) for each in (A, B)}
    ran = lt.cosimulate(lt.build(T, [A, B, T], CONFIG), inputs, engines=("sim", "pysim")).check()
    assert np.array_equal(ran.outputs["T"], lt.reference(T, inputs))
