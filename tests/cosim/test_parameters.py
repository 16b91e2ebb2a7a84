"""A program with parameters on the RTL: for each value that it is built for, it agrees with NumPy and the simulator."""

import numpy as np
import pytest

import lathe as lt


@pytest.mark.parametrize("rows", [3, 6])
def test_a_program_of_any_size_runs_on_the_rtl(rows):
    N = lt.parameter("N", typical=5)
    A, B = lt.placeholder((N, 6), "int8", name="A"), lt.placeholder((5, 6), "int8", name="B")
    C = lt.matmul(A, B, transpose_b=True, name="C")
    rng = np.random.default_rng(6)
    shapes = {"A": (rows, 6), "B": (5, 6)}
    inputs = {name: rng.integers(-128, 128, shape).astype(np.int8) for name, shape in shapes.items()}
    program = lt.build(C, [A, B, C], lt.load_config("tiny"), parameters={"N": rows})
    ran = lt.cosimulate(program, inputs, engines=("sim", "pysim")).check()
    assert np.array_equal(ran.outputs["C"], lt.reference(C, inputs, parameters={"N": rows}))
