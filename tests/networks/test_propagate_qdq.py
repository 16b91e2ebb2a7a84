"""Q/DQ propagation: data movement, pools and Relu between matmuls and Q/DQ run on the NPU."""

import numpy as np
import pytest
from error_checks import check_mentions
from networks_checking import LATHE16, checked, random_inputs, where, with_onnxruntime
from onnx import TensorProto, helper
from qdq_models import QdqModel
from random_moves import RandomMoves
from seeds import check_each, event

import lathe as lt

BEFORE_PRODUCTS = {  # the shape of the data, and how a tensor of shape (3, 8) is computed from it
    "transpose": ((8, 3), lambda graph, data: graph.node("Transpose", data)),
    "reshape": ((2, 4, 3), lambda graph, data: graph.node("Reshape", data, sizes(graph, 3, 8))),
    "flatten": ((3, 4, 2), lambda graph, data: graph.node("Flatten", data)),
    "squeeze": ((3, 1, 8), lambda graph, data: graph.node("Squeeze", data, sizes(graph, 1))),
    "slice": ((5, 8), lambda graph, data: graph.node("Slice", data, *(sizes(graph, n) for n in (0, 5, 0, 2)))),
    "pad": ((2, 7), lambda graph, data: graph.node("Pad", data, sizes(graph, 1, 0, 0, 1))),
    "relu": ((3, 8), lambda graph, data: graph.node("Relu", data)),
    "clip": ((3, 8), lambda graph, data: graph.node("Clip", data, number(graph, 0), number(graph, 100))),
    "concat": ((3, 4), lambda graph, data: graph.node("Concat", data, graph.node("Relu", data), axis=1)),
    "split": ((3, 16), lambda graph, data: parts(graph, data, 8, 8)[1]),
    "several": ((2, 3, 4), lambda graph, data: graph.node(
        "Reshape", graph.node("Relu", graph.node("Transpose", data, perm=[1, 2, 0])), sizes(graph, 3, 8))),
}  # fmt: skip
BEHIND_PRODUCTS = {  # consumers of a matmul's result of shape (6, 4)
    "transpose": lambda graph, sums: graph.node("Transpose", sums),
    "reshape": lambda graph, sums: graph.node("Reshape", sums, sizes(graph, 2, 3, 4)),
    "slice": lambda graph, sums: graph.node("Slice", sums, *(sizes(graph, n) for n in (1, 6, 0, 2))),
    "pad": lambda graph, sums: graph.node("Pad", sums, sizes(graph, 1, 0, 0, 1), number(graph, 0.3)),
    "rectified": lambda graph, sums: graph.node("Transpose", graph.node("Relu", sums)),
    "rectified behind": lambda graph, sums: graph.node("Relu", graph.node("Transpose", sums)),
    "clipped behind": lambda graph, sums: graph.node(
        "Clip", graph.node("Transpose", sums), number(graph, -0.33), number(graph, 0.77)),
    "concat": lambda graph, sums: graph.node("Concat", sums, sums, axis=0),
    "biased": lambda graph, sums: graph.node("Transpose", graph.node("Add", sums, number(graph, 0.5))),
    "several": lambda graph, sums: graph.node(
        "Transpose", graph.node("Reshape", sums, sizes(graph, 3, 2, 4)), perm=[2, 0, 1]),
}  # fmt: skip


def sizes(graph, *numbers):
    return graph.constant(np.array(numbers, np.int64))


def number(graph, value):
    return graph.constant(np.array(value, np.float32))


def parts(graph, data, *along, axis=1):
    first = graph.node("Split", data, sizes(graph, *along), axis=axis, name="split")
    graph.nodes[-1].output.extend(f"{first}.{count}" for count in range(1, len(along)))
    return list(graph.nodes[-1].output)


def product(graph, data, depth, filters, name="layer"):
    return graph.node("MatMul", data, graph.weights(depth, filters, axis=1)[0], name=name)


def convolution(graph, data, filters, channels, **attributes):
    weights, _ = graph.weights(filters, channels, 3, 3)
    return graph.node("Conv", data, weights, name="layer", **attributes)


def all_on_the_npu(graph, *outputs):
    """Run the model; asserts that only Q/DQ runs on the host CPU."""
    result = checked(graph.model(*outputs), units={name: graph.scales[name] for name in outputs})
    assert {row.why for row in result.layers} <= {"", "it converts between float and 8 bits"}
    assert where(result)["layer"] == "npu"
    return result


@pytest.mark.sample(7)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("case", BEFORE_PRODUCTS)
def test_data_movement_before_matmuls(case, dtype):
    graph = QdqModel(seed=1, dtype=dtype)
    shape, move = BEFORE_PRODUCTS[case]
    all_on_the_npu(graph, graph.quantised(product(graph, move(graph, graph.input(*shape)), 8, 5), 0.1))


@pytest.mark.sample(6)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("case", BEHIND_PRODUCTS)
def test_data_movement_after_matmuls(case, dtype):
    graph = QdqModel(seed=2, dtype=dtype)
    sums = product(graph, graph.input(6, 8), 8, 4)
    all_on_the_npu(graph, graph.quantised(BEHIND_PRODUCTS[case](graph, sums), 0.02))


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 1, 1]])
def test_pools_before_and_after_convolutions(pads):
    graph = QdqModel(seed=3)
    window = {"kernel_shape": [2, 2], "strides": [2, 1], "pads": pads}
    sums = convolution(graph, graph.node("MaxPool", graph.input(1, 4, 9, 8), **window), 6, 4, pads=[1] * 4)
    pooled = graph.node("MaxPool", graph.node("Relu", sums), **window)
    all_on_the_npu(graph, graph.quantised(graph.node("Transpose", pooled, perm=[0, 2, 3, 1]), 0.1))


def test_pads_before_convolutions():
    """A separate Pad: zeros become zero points; a padding value that no byte represents is added in float."""
    for value, place in ((0.0, "npu"), (0.02, "npu"), (0.0301, "host")):
        graph = QdqModel(seed=4, dtype="uint8")
        data = graph.node("Pad", graph.input(1, 4, 6, 6), sizes(graph, 0, 0, 1, 1, 0, 0, 1, 1), number(graph, value))
        made = graph.quantised(convolution(graph, data, 6, 4), 0.1)
        result = checked(graph.model(made), units={made: 0.1})
        assert where(result)["layer"] == place, value


def test_pads_of_old_opsets_have_their_value_in_an_attribute():
    graph = QdqModel(seed=1, opset=10)
    data = graph.input(2, 7, scale=0.0625)
    moved = graph.node("Pad", data, pads=[1, 0, 0, 1], value=-0.5)
    alone = graph.quantised(moved, 0.02, 0)
    values, scale = graph.random.integers(-127, 128, (8, 5)).astype(np.int8), np.array(0.004, np.float32)
    weights = graph.node("DequantizeLinear", *map(graph.constant, (values, scale, np.zeros((), np.int8))))
    all_on_the_npu(graph, alone, graph.quantised(graph.node("MatMul", moved, weights, name="layer"), 0.1))


def test_constants_concatenated_to_data_before_a_matmul():
    graph = QdqModel(seed=7)
    data = graph.quantised(graph.node("Identity", graph.input(3, 8)), 0.02, 3)
    grid = [graph.constant(np.float32(0.02)), graph.constant(np.int8(3))]
    more = graph.node(
        "DequantizeLinear", graph.constant(graph.random.integers(-128, 128, (1, 8)).astype(np.int8)), *grid
    )
    joined = graph.node("Concat", more, data, axis=0)
    all_on_the_npu(graph, graph.quantised(product(graph, joined, 8, 5), 0.1))


def test_clips_to_nan_stay_on_the_host():
    graph = QdqModel(seed=8)
    made = graph.node(
        "Clip", product(graph, graph.input(3, 8), 8, 5), number(graph, np.nan), number(graph, 0.3), name="clip"
    )
    result = lt.simulate(
        lt.from_onnx(graph.model(graph.quantised(made, 0.1))).build(lt.load_config("lathe16")),
        {"x": np.ones((3, 8), np.float32)},
    )
    (why,) = (row.why for row in result.layers if row.name == "clip")
    check_mentions(why, "minimum", "maximum", "constant number")


def test_clips_to_values_that_are_not_representable_stay_in_float():
    graph = QdqModel(seed=5)
    clipped = graph.node("Clip", graph.input(3, 8), number(graph, -0.013), number(graph, 1))
    made = graph.quantised(product(graph, clipped, 8, 5), 0.1)
    result = checked(graph.model(made), units={made: 0.1})
    (row,) = (row for row in result.layers if row.name == "layer")
    check_mentions(row.why, f"operand {clipped!r}", "8-bit", "single constant scale")


def test_windows_of_only_padding_stay_in_float():
    """The maximum of a window of only padding is -inf, which no byte represents."""
    graph = QdqModel(seed=6)
    data = graph.input(1, 2, 1, 8)
    pooled = graph.node("MaxPool", data, kernel_shape=[3, 1], dilations=[2, 1], pads=[1, 0, 3, 0])
    network = lt.from_onnx(graph.model(graph.quantised(graph.node("Relu", product(graph, pooled, 8, 3)), 0.1)))
    assert all(layer.name != "layer" for layer in network.found.layers.values())


def test_indices_of_pools_stay_in_float():
    graph = QdqModel(seed=7)
    sums = convolution(graph, graph.input(1, 4, 8, 8), 6, 4)
    pooled = graph.node("MaxPool", sums, kernel_shape=[2, 2], name="pool")
    graph.nodes[-1].output.append("indices")
    places = graph.node("Cast", "indices", to=TensorProto.FLOAT)
    made = graph.quantised(pooled, 0.1)
    result = checked(graph.model(made, places), units={made: 0.1})
    assert where(result)["pool"] == "host"


def test_data_of_several_scales_are_moved_in_float():
    graph = QdqModel(seed=8)
    scales = graph.constant(graph.random.uniform(0.01, 0.03, 8).astype(np.float32))
    zeros = graph.constant(np.zeros(8, np.int8))
    graph.inputs.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, (8, 3)))
    data = graph.node(
        "DequantizeLinear", graph.node("QuantizeLinear", "x", scales, zeros, axis=0), scales, zeros, axis=0
    )
    made = graph.quantised(product(graph, graph.node("Transpose", data), 8, 5), 0.1)
    result = checked(graph.model(made), units={made: 0.1})
    assert where(result)["layer"] == "host"


def test_tensors_with_other_consumers_are_computed_once():
    """The moved tensor is also a float output: the NPU computes int32 sums, and the host CPU quantises them."""
    graph = QdqModel(seed=9)
    sums = product(graph, graph.input(6, 8), 8, 4)
    made = graph.quantised(graph.node("Transpose", sums, name="turned"), 0.02)
    result = checked(graph.model(made, sums), units={made: 0.02, sums: 1e-5})
    assert [row.where for row in result.layers if row.name == "layer"] == ["npu"]
    assert where(result)["turned"] == "host"


def test_moved_tensors_with_float_and_quantised_consumers():
    """Outputs keep their names, types and shapes, and have onnxruntime's values."""
    graph = QdqModel(seed=10)
    turned = graph.node("Transpose", graph.input(8, 3))
    made = graph.quantised(product(graph, turned, 8, 5), 0.1)
    model = graph.model(made, turned)
    result = checked(model, units={made: 0.1})
    assert where(result)["layer"] == "npu"
    assert np.array_equal(result.outputs[turned], with_onnxruntime(model, random_inputs(model))[1])


@pytest.mark.parametrize("scales", [(0.02, 0.02, 0.02), (0.02, 0.03, 0.05)])
def test_slices_of_a_matmul_with_different_scales(scales):
    """Queries, keys and values of one matmul with different scales: each is a layer with its output channels."""
    graph = QdqModel(seed=11)
    sums = product(graph, graph.input(6, 8), 8, 12)
    made = [graph.quantised(part, scale) for part, scale in zip(parts(graph, sums, 3, 4, 5), scales, strict=True)]
    result = all_on_the_npu(graph, *made)
    assert sum(row.macs for row in result.layers) == 6 * 8 * 12


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", ["rows", "groups", "two tensors", "reshaped"])
def test_slices_with_different_scales_that_are_not_output_channels(case):
    """The matmul is computed once with a float result, which the host CPU splits."""
    graph = QdqModel(seed=12)
    axis = 1
    if case == "groups":
        weights, _ = graph.weights(12, 2, 1, 1)
        sums = graph.node("Conv", graph.input(1, 8, 3, 3), weights, name="layer", group=4)
    elif case == "two tensors":
        data = graph.input(6, 6)
        sums = graph.node("MatMul", data, graph.node("Transpose", data), name="layer")
    else:
        sums, axis = product(graph, graph.input(6, 8), 8, 12), 0
    if case == "reshaped":
        sums, axis = graph.node("Reshape", sums, sizes(graph, 6, 3, 4)), 2
    along = {"rows": (2, 4), "groups": (5, 7), "two tensors": (2, 4), "reshaped": (1, 3)}[case]
    first, second = parts(graph, sums, *along, axis=axis)
    made = [graph.quantised(first, 0.02), graph.quantised(second, 0.03)]
    result = checked(graph.model(*made), units={name: graph.scales[name] for name in made})
    assert [row.where for row in result.layers if row.name == "layer"] == ["npu"]
    assert where(result)["split"] == "host"


def test_the_input_of_a_relu_on_the_host_is_a_layer():
    """The host CPU computes the Relu, so the convolution stores its input."""
    graph = QdqModel(seed=13)
    first = graph.quantised(convolution(graph, graph.input(1, 4, 6, 6), 6, 4), 0.1)
    rectified = graph.node("Relu", first)
    softmax = graph.node("Softmax", rectified, axis=1)
    result = checked(graph.model(softmax), units={softmax: 0.02})
    assert where(result)["layer"] == "npu"


def test_machines_without_rescaling_leave_all_of_it_to_the_host():
    graph = QdqModel(seed=14)
    sums = product(graph, graph.node("Transpose", graph.input(8, 3)), 8, 5)
    made = graph.quantised(graph.node("Transpose", sums, name="behind"), 0.1)
    result = checked(graph.model(made), lt.load_config("vta"), units={made: 0.1})
    reasons = {row.name: row.why for row in result.layers}
    assert reasons["layer"] == reasons["behind"]
    check_mentions(reasons["layer"], "'vta'", "'rescale'")


def test_functions_and_binary_operators_of_moved_tensors():
    graph = QdqModel(seed=15)
    data = graph.input(8, 8)
    turned = graph.node("Transpose", data)
    total = graph.quantised(graph.node("Add", data, turned, name="layer"), 0.04)
    function = graph.quantised(graph.node("Transpose", graph.node("Sigmoid", turned)), 1 / 256)
    all_on_the_npu(graph, total, function)


def check_model(seed: int) -> None:
    made = RandomMoves(seed)
    model = made.model
    network = lt.from_onnx(model)
    inputs = random_inputs(model, seed)
    result = lt.simulate(network.build(LATHE16), inputs)
    meant = lt.reference(network, inputs)
    for (name, unit), expected in zip(made.outputs.items(), with_onnxruntime(model, inputs), strict=True):
        found = result.outputs[name]
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype), f"seed {seed}: {name}"
        assert np.array_equal(found, meant[name]), f"seed {seed}: {name} is not the reference's"
        assert np.abs(found - expected).max(initial=0) <= unit * 1.001, f"seed {seed}: {name}"
    hosts = {row.name for row in result.layers if row.where == "host"}
    products = {node.name for node in network.model.nodes if node.op_type in ("Conv", "Gemm", "MatMul")}
    event("all products on the NPU" if not hosts & products else "products on the host")


@pytest.mark.slow
@pytest.mark.seeds(5, slow=219)
def test_random_models(seeds):
    happened = check_each(seeds, check_model)
    assert happened["all products on the NPU"]
