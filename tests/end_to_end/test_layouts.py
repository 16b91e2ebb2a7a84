"""Programs whose tensors have transformed layouts: outputs equal NumPy's on the simulator and the RTL."""

import numpy as np
import pytest

import lathe as lt

Program = tuple[lt.Schedule, list[lt.Tensor], lt.Tensor]


def doubled() -> Program:
    """The last example of TVM's RFC 0039, smaller."""
    A = lt.placeholder((8, 4, 32), "int8", name="A")
    B = lt.compute(A.shape, lambda i, j, k: 2 * A[i, j, k], name="B")
    s = lt.create_schedule(B)
    s.transform_layout(A, lambda i, j, k: [i * 4 + j, k // 4, k % 4])
    s[B].transform_layout(lambda i, j, k: [i // 4, 32 * j + k, i % 4])
    return s, [A, B], B


def product() -> Program:
    X = lt.placeholder((12, 32), "int8", name="X")
    W = lt.placeholder((24, 32), "int8", name="W")
    M = lt.matmul(X, W, transpose_b=True, name="M")
    D = lt.requantise(M, 6, name="D")
    s = lt.create_schedule(D)
    s.transform_layout(X, lambda i, k: [k // 8, i, lt.AXIS_SEPARATOR, k % 8])
    s.transform_layout(W, lambda j, k: [j // 4, k, j % 4])
    s.transform_layout(M, lambda i, j: [j // 8, i, j % 8])
    s.transform_layout(D, lambda i, j: [j, i])
    return s, [X, W, D], D


def convolution() -> Program:
    """Channels in blocks: from NHWC to NCHWc without another definition of the operator."""
    data = lt.placeholder((1, 6, 6, 32), "int8", name="data")
    weights = lt.placeholder((16, 3, 3, 32), "int8", name="weights")
    conv = lt.conv2d(data, weights, padding=1, name="conv")
    out = lt.requantise(conv, 7, name="out")
    s = lt.create_schedule(out)
    for tensor in (data, out):
        s.transform_layout(tensor, lambda n, h, w, c: [n, c // 16, h, w, c % 16])
    return s, [data, weights, out], out


def cached() -> Program:
    """A copy in acc with a layout of its own, computed in the loops of its consumer."""
    A = lt.placeholder((8, 64), "int8", name="A")
    B = lt.compute(A.shape, lambda i, j: A[i, j] + 1, name="B")
    s = lt.create_schedule(B)
    made = s.cache_write(B, "acc")
    copy = s.cache_read(A, "acc", [made])
    s.transform_layout(copy, lambda i, j: [j // 16, i, j % 16])
    jo, i, ji = s.transform_layout(made, lambda i, j: [j // 16, i, j % 16])
    s[copy].compute_at(s[made], jo)
    s[made].emit_insn(i, "alu")
    s[copy].emit_insn(s[copy].axis[1], "dma")
    return s, [A, B], B


PROGRAMS = [doubled, product, convolution, cached]


def inputs_of(tensors: list[lt.Tensor]) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    inputs = [tensor for tensor in tensors if tensor.computation is None]
    return {tensor.name: generator.integers(-128, 128, tensor.shape, np.int8) for tensor in inputs}


@pytest.mark.sample(3)
@pytest.mark.parametrize("config", ["vta", "tiny"])
@pytest.mark.parametrize("make", PROGRAMS)
def test_layouts_on_machines(make, config):
    s, tensors, output = make()
    program = lt.build(s, tensors, lt.load_config(config), check=True)
    assert lt.verify(program) == []
    inputs = inputs_of(tensors)
    found = lt.simulate(program, inputs).outputs[output.name]
    np.testing.assert_array_equal(found, lt.reference(output, inputs))


def test_the_rtl_agrees_in_every_cycle():
    s, tensors, output = product()
    program = lt.build(s, tensors, lt.load_config("tiny"))
    inputs = inputs_of(tensors)
    ran = lt.cosimulate(program, inputs, engines=("sim", "pysim")).check()
    np.testing.assert_array_equal(ran.outputs[output.name], lt.reference(output, inputs))


def test_a_saved_program_keeps_its_layouts(tmp_path):
    s, tensors, output = product()
    path = tmp_path / "program.npz"
    lt.build(s, tensors, lt.load_config("tiny")).save(path)
    inputs = inputs_of(tensors)
    found = lt.simulate(lt.Program.load(path), inputs).outputs[output.name]
    np.testing.assert_array_equal(found, lt.reference(output, inputs))
