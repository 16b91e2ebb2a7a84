"""onnxruntime's fused operators: their matmuls are int32 sums on the NPU, equal to onnxruntime's."""

import numpy as np
import pytest
from networks_checking import LATHE16, where, with_onnxruntime
from onnx import TensorProto, helper, numpy_helper

import lathe as lt
from lathe.frontend.onnx.decompose_fused_ops import MICROSOFT, decompose_fused_ops

TYPES = {"float32": TensorProto.FLOAT, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8}
GENERATOR = np.random.default_rng(0)
WEIGHTS = GENERATOR.integers(-127, 128, (20, 24)).astype(np.int8)
SCALES = GENERATOR.uniform(0.001, 0.01, 24).astype(np.float32)
BIAS = GENERATOR.standard_normal(24).astype(np.float32)


def of(nodes, held, inputs, opset=17):
    graph = helper.make_graph(
        nodes,
        "fused",
        [helper.make_tensor_value_info(name, TYPES[str(each.dtype)], each.shape) for name, each in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(values), name) for name, values in held.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def computed(model, inputs):
    """Run the model; asserts that results equal the reference's, and onnxruntime's up to float32 rounding."""
    network = lt.from_onnx(model)
    result = lt.simulate(network.build(LATHE16), inputs)
    assert np.array_equal(result.outputs["y"], lt.reference(network, inputs)["y"])
    (expected,) = with_onnxruntime(model, inputs)
    np.testing.assert_allclose(result.outputs["y"], expected, rtol=1e-6, atol=1e-6)
    return result


@pytest.mark.sample(2)
@pytest.mark.parametrize("scales", [np.float32(0.01), SCALES])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("zero", [False, True])
def test_dynamic_matmuls(scales, bias, zero):
    held = {"w": WEIGHTS, "s": scales, **({"b": BIAS} if bias else {})}
    held |= {"z": np.zeros(np.shape(scales), np.int8) + np.int8(2)} if zero else {}
    names = ["x", "w", "s", "z" if zero else "", "b" if bias else ""]
    inputs = {"x": GENERATOR.standard_normal((5, 20)).astype(np.float32)}
    made = helper.make_node("DynamicQuantizeMatMul", names, ["y"], "layer", domain=MICROSOFT)
    result = computed(of([made], held, inputs), inputs)
    assert where(result)["layer"] == "npu"
    assert next(row.macs for row in result.layers if row.name == "layer") == 5 * 20 * 24


@pytest.mark.parametrize("zero", [None, np.uint8(117)])
def test_matmuls_of_bytes(zero):
    held = {"w": WEIGHTS, "s": SCALES, "a": np.float32(0.02), "b": BIAS, **({} if zero is None else {"z": zero})}
    names = ["x", "w", "a", "s", "" if zero is None else "z", "", "b"]
    inputs = {"x": GENERATOR.integers(0, 256, (2, 5, 20)).astype(np.uint8)}
    made = helper.make_node("MatMulIntegerToFloat", names, ["y"], "layer", domain=MICROSOFT)
    assert where(computed(of([made], held, inputs), inputs))["layer"] == "npu"


def test_quantisers_of_onnxruntimes_domain():
    held = {"w": WEIGHTS, "s": np.float32(0.02), "z": np.uint8(117), "ws": np.float32(0.01), "wz": np.int8(0)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], domain=MICROSOFT),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["qf"], domain=MICROSOFT),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], domain=MICROSOFT),
        helper.make_node("MatMul", ["qf", "wf"], ["c"], "layer"),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["r"], domain=MICROSOFT),
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["y"], domain=MICROSOFT),
    ]
    inputs = {"x": GENERATOR.standard_normal((5, 20)).astype(np.float32)}
    network = lt.from_onnx(of(nodes, held, inputs))
    result = lt.simulate(network.build(LATHE16), inputs)
    assert where(result)["layer"] == "npu"
    (expected,) = with_onnxruntime(of(nodes, held, inputs), inputs)
    assert np.abs(result.outputs["y"] - expected).max() <= 0.02 * 1.001


def test_averages_of_onnxruntimes_domain():
    held = {"s": np.float32(0.02), "z": np.int8(3), "t": np.float32(0.01), "u": np.int8(-5)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node(
            "QLinearReduceMean", ["q", "s", "z", "t", "u"], ["m"], "layer", domain=MICROSOFT, axes=[1], keepdims=1
        ),
        helper.make_node("DequantizeLinear", ["m", "t", "u"], ["y"]),
    ]
    inputs = {"x": GENERATOR.standard_normal((5, 20)).astype(np.float32)}
    network = lt.from_onnx(of(nodes, held, inputs))
    result = lt.simulate(network.build(LATHE16), inputs)
    assert where(result)["layer"] == "npu"
    assert np.array_equal(result.outputs["y"], lt.reference(network, inputs)["y"])


def test_other_operators_are_not_decomposed():
    held = {"s": np.float32(0.02), "z": np.int16(3)}
    inputs = {"x": np.zeros((2, 3), np.float32)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], domain=MICROSOFT),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], domain=MICROSOFT),
    ]
    assert not decompose_fused_ops(of(nodes, held, inputs))
    old = of([helper.make_node("MatMulIntegerToFloat", ["x", "w", "s", "s"], ["y"], domain=MICROSOFT)], {}, {}, 9)
    assert not decompose_fused_ops(old)
