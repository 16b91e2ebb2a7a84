"""Reuse buffers on the RTL: ring and shift buffers agree with NumPy, and in cycles with the simulator."""

import numpy as np
import pytest

import lathe as lt

CONFIG = lt.load_config("tiny")


def convolution() -> tuple[lt.Program, dict[str, np.ndarray], np.ndarray]:
    """Tiles of two rows that reuse the halo: six rows are loaded, each once, for eight rows of padded input."""
    data = lt.placeholder((1, 6, 6, 4), "int8", name="data")
    weights = lt.placeholder((4, 3, 3, 4), "int8", name="weights")
    product = lt.conv2d(data, weights, padding=1, name="conv")
    output = lt.requantise(product, 4, name="output")
    s = lt.create_schedule(output)
    made = s.cache_write(output, "acc")
    s.cache_read(weights, "wgt", [product])
    rows, _ = s[output].split(s[output].axis[1], factor=2)
    for tensor in (made, product):
        s[tensor].set_scope("acc")
        s[tensor].compute_at(s[output], rows)
    padded = product.computation.reads[0].tensor
    s[padded].set_scope("inp")
    s[padded].reuse_at(s[output], rows)
    rng = np.random.default_rng(3)
    values = {each.name: rng.integers(-128, 128, each.shape).astype(np.int8) for each in (data, weights)}
    return lt.build(s, [data, weights, output], CONFIG), values, lt.reference(output, values)


def blur(form: str = "ring") -> tuple[lt.Program, dict[str, np.ndarray], np.ndarray]:
    """A line buffer, and a window that is filled from it, in acc."""
    A = lt.placeholder((5, 5, 4), "int8", name="A")
    r, c = lt.reduce_axis((0, 3), name="r"), lt.reduce_axis((0, 3), name="c")
    B = lt.compute((3, 3, 4), lambda y, x, k: lt.sum(A[y + r, x + c, k].astype("int32"), axis=[r, c]), name="B")
    s = lt.create_schedule(B)
    made = s.cache_write(B, "acc")
    s[made].compute_at(s[B], "x")
    lines = s.reuse_at(A, s[B], "y", form=form)
    s.reuse_at(lines, s[B], "x", form=form)
    values = {"A": np.random.default_rng(4).integers(-128, 128, A.shape).astype(np.int8)}
    return lt.build(s, [A, B], CONFIG), values, lt.reference(B, values)


def shifted_blur() -> tuple[lt.Program, dict[str, np.ndarray], np.ndarray]:
    """The same with shift buffers, whose values the ALU moves."""
    return blur("shift")


@pytest.mark.parametrize(
    ("program", "memory", "loaded"),
    [(convolution, "inp", 6 * 6 * 4), (blur, "acc8", 5 * 5 * 4), (shifted_blur, "acc8", 5 * 5 * 4)],
)
def test_simulator_and_rtl_agree_and_load_each_value_once(program, memory, loaded):
    compiled, values, expected = program()
    ran = lt.cosimulate(compiled, values, engines=("sim", "pysim")).check()
    assert ran.agree
    (output,) = ran.outputs.values()
    assert np.array_equal(output, expected)
    assert ran.results["sim"].counters.bytes_read[memory] == loaded
    assert ran.results["pysim"].counters.bytes_read[memory] == loaded
