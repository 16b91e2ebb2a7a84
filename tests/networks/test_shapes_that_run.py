"""Shapes are onnxruntime's, even if ONNX's shape inference or the declarations of the model differ."""

import numpy as np
import onnx
import pytest
from networks_checking import with_onnxruntime
from onnx import TensorProto, helper, numpy_helper

import lathe as lt

HELD = {
    "scale": np.float32(0.02), "zero": np.int8(3), "wide": np.float32(0.3), "none": np.int8(0),
    "fine": np.float32(0.01),
}  # fmt: skip


def convolution_behind(nodes: list, kernel: tuple[int, int], shape: list, made: list | None = None) -> onnx.ModelProto:
    """``nodes`` compute "p" from "xf"; a convolution of it is the output."""
    weights = np.random.default_rng(0).integers(-127, 128, (5, 4, *kernel)).astype(np.int8)
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["x8"]),
            helper.make_node("DequantizeLinear", ["x8", "scale", "zero"], ["xf"]),
            *nodes,
            helper.make_node("QuantizeLinear", ["p", "scale", "zero"], ["p8"]),
            helper.make_node("DequantizeLinear", ["p8", "scale", "zero"], ["pf"]),
            helper.make_node("DequantizeLinear", ["weights", "fine", "none"], ["w"]),
            helper.make_node("Conv", ["pf", "w"], ["c"], "conv"),
            helper.make_node("QuantizeLinear", ["c", "wide", "none"], ["y"]),
        ],
        "behind",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT8, made)],
        [numpy_helper.from_array(np.asarray(each), name) for name, each in {**HELD, "weights": weights}.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(model: onnx.ModelProto, shape: tuple[int, ...]) -> lt.NetworkResult:
    inputs = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    network = lt.from_onnx(model, shapes={"x": shape})
    result = lt.simulate(network.build(lt.load_config("lathe16")), inputs)
    (wanted,) = with_onnxruntime(model, inputs)
    found = result.outputs["y"]
    assert network.model.types["y"].shape == found.shape == wanted.shape
    assert np.abs(found.astype(int) - wanted).max() <= 1
    assert np.array_equal(found, lt.reference(network, inputs)["y"])
    return result


@pytest.mark.sample(5)
@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("size", "told"),
    [
        ((7, 7), {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((6, 6), {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 1, 1]}),
        ((6, 6), {"kernel_shape": [1, 1], "strides": [2, 2]}),
        ((6, 6), {"kernel_shape": [1, 1], "strides": [2, 2], "auto_pad": "VALID"}),
        ((6, 6), {"kernel_shape": [2, 2], "strides": [3, 3]}),
        ((6, 7), {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 1, 0]}),
    ],
)
def test_windows_that_would_start_after_the_image(operator, size, told):
    pool = helper.make_node(operator, ["xf"], ["p"], "pool", ceil_mode=1, **told)
    result = check(convolution_behind([pool], (2, 2), [1, 4, *size]), (1, 4, *size))
    assert {row.name: row.where for row in result.layers}["conv"] == "npu"


def test_successive_pools():
    pools = [
        helper.make_node("MaxPool", [read], [made], ceil_mode=1, kernel_shape=[1, 1], strides=[2, 2])
        for read, made in (("xf", "a"), ("a", "p"))
    ]
    check(convolution_behind(pools, (2, 2), [1, 4, 8, 8], [1, 5, 2, 2]), (1, 4, 8, 8))


def test_output_declared_with_another_shape():
    """The batch is dynamic at the input, but static in the declared output."""
    relu = helper.make_node("Relu", ["xf"], ["p"])
    check(convolution_behind([relu], (3, 3), ["N", 4, 6, 6], [1, 5, 4, 4]), (3, 4, 6, 6))
