"""Multiply-accumulates of host nodes, which are counted as for NPU layers."""

import json

import numpy as np
import pytest
from invoked import lathe
from networks_checking import LATHE16, random_inputs
from onnx import TensorProto, helper, numpy_helper
from qdq_models import QdqModel
from quantised_macs import left_to_the_host

import lathe as lt
from lathe.frontend.onnx.mac_counts import quantised_mac_nodes

VTA = lt.load_config("vta")  # without RESCALE, so that 8-bit layers stay on the host CPU


def quantised(kind):
    """A convolution or matmul in QDQ form, and its multiply-accumulates."""
    graph = QdqModel(seed=1)
    if kind == "Conv":
        weights, _ = graph.weights(6, 2, 3, 3)
        sums = graph.node("Conv", graph.input(2, 4, 7, 5), weights, name="layer", group=2, pads=[1] * 4, strides=[2, 1])
        count = 2 * 6 * 4 * 5 * 2 * 9
    elif kind == "ConvTranspose":
        weights, _ = graph.weights(4, 3, 2, 2, axis=1)
        sums = graph.node("ConvTranspose", graph.input(1, 4, 5, 6), weights, name="layer", strides=[2, 2])
        count = 4 * 5 * 6 * 3 * 4
    elif kind == "Gemm":
        weights, _ = graph.weights(5, 8)
        sums = graph.node("Gemm", graph.input(8, 3), weights, name="layer", transA=1, transB=1)
        count = 3 * 8 * 5
    else:
        data = graph.input(2, 3, 8)
        moved = graph.node("Transpose", data, perm=[0, 2, 1])
        sums = graph.node("MatMul", data, moved, name="layer")
        count = 2 * 3 * 8 * 3
    return graph.model(graph.quantised(sums, 0.1)), count


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose", "Gemm", "MatMul"])
def test_macs_are_equal_on_npu_and_host(kind):
    model, count = quantised(kind)
    network = lt.from_onnx(model)
    for machine, where in ((VTA, "host"), (LATHE16, "npu")):
        result = lt.simulate(network.build(machine), random_inputs(model))
        rows = [(row.name, row.where, row.macs) for row in result.layers if row.macs]
        assert rows == [("layer", where, count)]
        assert left_to_the_host(network, result) == (count if where == "host" else 0)


def one_node(kind, data, held, domain="", outputs=("y",), **attributes):
    """A model of one node with an input ``x`` and constants; "" for omitted inputs."""
    names = [f"c{number}" if values is not None else "" for number, values in enumerate(held)]
    node = helper.make_node(kind, ["x", *names], list(outputs), "layer", domain=domain, **attributes)
    dtype = helper.np_dtype_to_tensor_dtype(data.dtype)
    graph = helper.make_graph(
        [node], "model", [helper.make_tensor_value_info("x", dtype, data.shape)],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs],
        [numpy_helper.from_array(values, name) for values, name in zip(held, names, strict=True) if name],
    )  # fmt: skip
    for each in graph.output:
        each.ClearField("type")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def numbers(*shape):
    return np.ones(shape, np.float32)


SCALE, ZERO = np.float32(0.1).reshape(()), np.zeros((), np.uint8)
SEVERAL = np.full(4, 0.1, np.float32)
OF_BYTES = {  # with zero points or scales that layers do not support
    "MatMulInteger": (("MatMulInteger", np.ones((3, 4), np.uint8), [np.ones((2, 4, 5), np.uint8)]), 2 * 3 * 4 * 5),
    "ConvInteger": (("ConvInteger", np.ones((1, 2, 6), np.uint8), [np.ones((3, 2, 3), np.uint8)]), 3 * 4 * 2 * 3),
    "QLinearConv": (
        ("QLinearConv", np.ones((1, 2, 5, 5), np.uint8),
         [SCALE, ZERO, np.ones((3, 2, 3, 3), np.uint8), SCALE, ZERO, SCALE, ZERO]), 3 * 9 * 2 * 9),
    "QLinearMatMul": (
        ("QLinearMatMul", np.ones((3, 4), np.uint8),
         [SCALE, ZERO, np.ones((4, 5), np.uint8), SCALE, ZERO, SCALE, ZERO]), 3 * 4 * 5),
    "QGemm": (
        ("QGemm", np.ones((4, 3), np.uint8),
         [SCALE, ZERO, np.ones((4, 5), np.uint8), SCALE, ZERO, None, SCALE, ZERO], "com.microsoft"), 3 * 4 * 5),
}  # fmt: skip


@pytest.mark.parametrize("kind", OF_BYTES)
def test_operators_of_8_bits(kind):
    (operator, data, held, *domain), count = OF_BYTES[kind]
    more = {"transA": 1} if kind == "QGemm" else {}
    network = lt.from_onnx(one_node(operator, data, held, *domain, **more))
    assert quantised_mac_nodes(network.model) == {0}
    result = lt.simulate(network.build(VTA), {"x": data})
    (row,) = (row for row in result.layers if row.name == "layer")
    assert row.macs == count


def test_macs_of_float_nodes():
    """Float matmuls are counted, but not as quantised; element-wise multiplications are not counted."""
    cases = {
        "MatMul": ([numbers(8, 5)], 3 * 8 * 5, {}),
        "Gemm": ([numbers(5, 8), numbers(5)], 3 * 8 * 5, {"transB": 1}),
        "Mul": ([numbers(8)], 0, {}),
    }
    for kind, (held, count, more) in cases.items():
        network = lt.from_onnx(one_node(kind, numbers(3, 8), held, **more))
        result = lt.simulate(network.build(LATHE16), {"x": numbers(3, 8)})
        assert [(row.name, row.where, row.macs) for row in result.layers] == [("layer", "host", count)]
        assert left_to_the_host(network, result) == 0


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_operators(kind, gates):
    held = [numbers(2, gates * 6, 8), numbers(2, gates * 6, 6)]
    network = lt.from_onnx(one_node(kind, numbers(5, 3, 8), held, hidden_size=6, direction="bidirectional"))
    (row,) = lt.simulate(network.build(LATHE16), {"x": numbers(5, 3, 8)}).layers
    assert row.macs == 2 * 5 * 3 * gates * 6 * (8 + 6)


def test_saved_networks_and_tables_have_them(tmp_path):
    model, count = quantised("Gemm")
    program = lt.from_onnx(model).build(VTA)
    program.save(tmp_path / "network.npz")
    inputs = random_inputs(model)
    read = lt.simulate(lt.NetworkProgram.load(tmp_path / "network.npz"), inputs)
    assert read.layers == lt.simulate(program, inputs).layers
    assert sum(row.macs for row in read.layers) == count
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    told = lathe("compile", tmp_path / "model.onnx", "-c", "vta", "-o", tmp_path / "other.npz", "--json").stdout
    assert [each["macs"] for each in json.loads(told)["layers"] if each["name"] == "layer"] == [count]
    table = lathe("run", tmp_path / "model.onnx", "-c", "vta", "--random", "1").stdout
    assert ["layer", "host", str(count)] in [line.split()[:3] for line in table.splitlines()]
    assert "nothing on the NPU" in table
