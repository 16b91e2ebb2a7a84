"""8-bit convolutions and matmuls with float results: int32 sums on the NPU, then scale and bias in float."""

import numpy as np
import onnx
import pytest
from error_checks import check_mentions
from networks_checking import LATHE16, checked, random_inputs, where
from onnx import helper, numpy_helper

import lathe as lt
from lathe.networks.layer_comparison import layers_compared

NEAR = 2e-5
"""The tolerance of float32 sums in another order, for results of a magnitude of 10."""


def node(kind, inputs, output, name="", **attributes):
    return helper.make_node(kind, inputs, [output], name, **attributes)


def model(nodes, shape, held, outputs=("y",)) -> onnx.ModelProto:
    """A model of nodes on ``xf``, the dequantised input, with weights ``w`` that are dequantised as ``wf``."""
    known = {"s": np.float32(0.03), "z": np.uint8(120), "none": np.int8(0), **held}
    first = [
        node("QuantizeLinear", ["x", "s", "z"], "x8"),
        node("DequantizeLinear", ["x8", "s", "z"], "xf"),
    ]
    if "w" in held:
        known["ws"] = held.get("ws", np.float32(0.01))
        zeros = known["none"] if np.ndim(known["ws"]) == 0 else np.zeros(len(known["ws"]), np.int8)
        first.append(node("DequantizeLinear", ["w", "ws", "wz"], "wf", axis=0))
        known["wz"] = zeros
    graph = helper.make_graph(
        [*first, *nodes],
        "heads",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(values), name) for name, values in known.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


GENERATOR = np.random.default_rng(0)


def weights(*shape):
    return GENERATOR.integers(-127, 128, shape).astype(np.int8)


def floats(count, low=-1.0, high=1.0):
    return GENERATOR.uniform(low, high, count).astype(np.float32)


IMAGE = {"w": weights(24, 12, 3, 3), "ws": floats(24, 0.001, 0.01), "b": floats(24)}
NORMAL = {"gain": floats(24), "shift": floats(24), "mean": floats(24), "variance": floats(24, 0.5, 2.0)}
MATRIX = {"w": weights(20, 24), "b": floats(24)}
CONV = node("Conv", ["xf", "wf", "b"], "c", "layer", pads=[1, 1, 1, 1])

CASES = {
    "convolution": ([CONV, node("Relu", ["c"], "y", "behind")], [1, 12, 7, 8], IMAGE, 24 * 56 * 108),
    "normalised": (
        [CONV, node("BatchNormalization", ["c", *NORMAL], "y", "normal")], [1, 12, 7, 8], {**IMAGE, **NORMAL},
        24 * 56 * 108,
    ),
    "depthwise": (
        [node("Conv", ["xf", "wf"], "y", "layer", group=12)], [1, 12, 7, 8], {"w": weights(12, 1, 3, 3)}, 12 * 30 * 9,
    ),
    "one dimension": ([node("Conv", ["xf", "wf"], "y", "layer")], [1, 12, 9], {"w": weights(18, 12, 3)}, 18 * 7 * 36),
    "transposed": (
        [node("ConvTranspose", ["xf", "wf"], "y", "layer", strides=[2, 2])], [1, 12, 5, 4],
        {"w": weights(12, 6, 3, 3)}, 12 * 20 * 54,
    ),
    "gemm": (
        [node("Gemm", ["xf", "wf", "b"], "c", "layer", alpha=0.5, beta=2.0), node("Sigmoid", ["c"], "y", "behind")],
        [5, 20], MATRIX, 5 * 24 * 20,
    ),
    "product and bias": (
        [node("MatMul", ["xf", "wf"], "c", "layer"), node("Add", ["b", "c"], "y", "bias")], [2, 5, 20], MATRIX,
        10 * 24 * 20,
    ),
}  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", CASES)
def test_sums_are_computed_on_the_npu(case):
    nodes, shape, held, macs = CASES[case]
    result = checked(model(nodes, shape, held), units={"y": NEAR})
    row = next(row for row in result.layers if row.name == "layer")
    assert (row.where, row.macs, row.why) == ("npu", macs, "")
    assert {"bias", "normal"}.isdisjoint(where(result))


@pytest.mark.parametrize("zero", [0, 7])
def test_matmuls_of_two_tensors(zero):
    """As in attention: scaled, and in float to a softmax."""
    nodes = [
        node("Transpose", ["x8"], "t8", "turned", perm=[0, 2, 1]),
        node("DequantizeLinear", ["t8", "s", "z"], "tf"),
        node("MatMul", ["xf", "tf"], "c", "layer"),
        node("Div", ["c", "root"], "d", "root"),
        node("Softmax", ["d"], "y", "softmax"),
    ]
    held = {"root": np.float32(8), "z": np.int8(zero)}
    result = checked(model(nodes, [2, 5, 20], held), units={"y": NEAR})
    assert where(result) == {"x8": "host", "turned": "npu", "layer": "npu", "softmax": "host"}


@pytest.mark.parametrize("turned", [False, True])
def test_epilogues_are_fused(turned):
    """An epilogue of bias, factor and normalisation before QuantizeLinear; the factor may be negative."""
    step = node("Sub", ["b", "c"], "d") if turned else node("Add", ["c", "b"], "d")
    nodes = [
        node("MatMul", ["xf", "wf"], "c", "layer"), step, node("Mul", ["d", "factor"], "e"), node("Relu", ["e"], "r"),
        node("QuantizeLinear", ["r", "s", "none"], "q"), node("DequantizeLinear", ["q", "s", "none"], "y"),
    ]  # fmt: skip
    result = checked(model(nodes, [2, 5, 20], {**MATRIX, "factor": floats(24, 0.1, 0.5)}), units={"y": 0.03})
    assert where(result) == {"x8": "host", "layer": "npu", "y": "host"}


def test_matmuls_of_two_tensors_with_a_factor():
    nodes = [
        node("Transpose", ["x8"], "t8", "turned", perm=[0, 2, 1]), node("DequantizeLinear", ["t8", "s", "z"], "tf"),
        node("MatMul", ["xf", "tf"], "c", "layer"), node("Div", ["c", "root"], "d", "root"),
        node("QuantizeLinear", ["d", "s", "z"], "q"), node("DequantizeLinear", ["q", "s", "z"], "y"),
    ]  # fmt: skip
    result = checked(model(nodes, [2, 5, 20], {"root": np.float32(-8)}), units={"y": 0.03})
    assert where(result)["layer"] == "npu"


def test_an_epilogue_with_another_consumer_of_the_sums():
    """The sums have another consumer before the bias: they are computed once, and the host CPU adds the bias."""
    nodes = [node("MatMul", ["xf", "wf"], "c", "layer"), node("Add", ["c", "b"], "y", "bias")]
    result = checked(model(nodes, [5, 20], MATRIX, ("y", "c")), units={"y": NEAR, "c": NEAR})
    assert where(result) == {"x8": "host", "layer": "npu", "bias": "host"}
    assert [row.name for row in result.layers].count("layer") == 1


@pytest.mark.parametrize("machine", ["vta", "tiny"])
def test_machines_without_rescaling_make_sums(machine):
    nodes, shape, held, _ = CASES["gemm"]
    result = checked(model(nodes, shape, held), lt.load_config(machine), units={"y": NEAR})
    assert where(result)["layer"] == "npu"


def test_only_weights_in_8_bits_are_no_layer_and_the_reason_is_reported():
    nodes = [node("Exp", ["xf"], "e", "exp"), node("Softmax", ["e"], "f"), node("MatMul", ["f", "wf"], "y", "layer")]
    result = checked(model(nodes, [5, 20], MATRIX), units={"y": NEAR})
    row = next(row for row in result.layers if row.name == "layer")
    assert row.where == "host"
    check_mentions(row.why, "operand 'f'", "8-bit", "single constant scale")


def test_sums_beyond_32_bits_stay_on_the_host():
    nodes = [node("MatMul", ["xf", "wf"], "y", "layer")]
    deep = model(nodes, [1, 70000], {"w": np.full((70000, 1), 127, np.int8)})
    network = lt.from_onnx(deep)
    nodes_of_host = [each for part in network.parts(LATHE16) for each in network.reasons(part, LATHE16)]
    (layer,) = (each for each in nodes_of_host if each.name == "layer")
    check_mentions(layer.why, "sums", "32 bits")
    assert layer.macs == 70000


def test_networks_with_results_in_float_are_saved(tmp_path):
    nodes, shape, held, _ = CASES["normalised"]
    network = lt.from_onnx(model(nodes, shape, held))
    program = network.build(LATHE16)
    program.save(tmp_path / "network.npz")
    inputs = random_inputs(network.model.proto)
    made = lt.simulate(lt.NetworkProgram.load(tmp_path / "network.npz"), inputs).outputs["y"]
    assert np.array_equal(made, lt.reference(network, inputs)["y"])


def test_layers_in_float_are_compared():
    nodes, shape, held, _ = CASES["convolution"]
    read = lt.from_onnx(model(nodes, shape, held))
    (row,) = layers_compared(read, random_inputs(read.model.proto))
    assert (row.name, row.kind, row.largest <= 1) == ("layer", "Conv", True)
