"""Single layers of other ranks and forms on the NPU: 1-D, partial windows, broadcast operands."""

import numpy as np
import pytest
from error_checks import check_mentions
from networks_checking import checked, where
from qdq_models import QdqModel

import lathe as lt


def alone(graph: QdqModel, made: str, name: str = "layer") -> lt.NetworkResult:
    """Run the model; asserts that only Q/DQ runs on the host CPU."""
    result = checked(graph.model(made), units={made: graph.scales[made]})
    assert where(result)[name] == "npu"
    assert {row.why for row in result.layers if row.where == "host"} <= {"it converts between float and 8 bits"}
    return result


def convolution(graph, kind, data, shape, *, axis=0, filters, scale=0.1, per_channel=True, **attributes):
    weights, scales = graph.weights(*shape, axis=axis, per_channel=per_channel)
    bias = graph.bias(data, np.broadcast_to(scales[:1], filters) if len(scales) != filters else scales)
    return graph.quantised(graph.node(kind, data, weights, bias, name="layer", **attributes), scale)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((18, 12, 3), {"pads": [1, 1]}),
        ((18, 12, 5), {"strides": [2], "dilations": [2], "pads": [0, 3]}),
        ((18, 12, 3), {"auto_pad": "SAME_LOWER", "strides": [2]}),
        ((12, 1, 3), {"group": 12, "pads": [2, 0]}),
        ((18, 4, 1), {"group": 3}),
    ],
)
def test_convolutions_of_one_dimension(dtype, shape, attributes):
    graph = QdqModel(seed=1, dtype=dtype)
    alone(graph, convolution(graph, "Conv", graph.input(2, 12, 13), shape, filters=shape[0], **attributes))


def test_a_chain_of_one_dimension_is_one_stream():
    graph = QdqModel(seed=2)
    data = graph.input(1, 12, 20)
    for _ in range(2):
        weights, scales = graph.weights(12, 12, 3)
        made = graph.node("Conv", data, weights, graph.bias(data, scales), pads=[1, 1])
        made = graph.quantised(graph.node("Relu", made), 0.1)
        graph.shapes[made] = (1, 12, 20)
        data = graph.layer("Add", made, data, scale=0.1)
    pooled = graph.layer("MaxPool", data, same=True, kernel_shape=[2], strides=[2])
    made = graph.layer("GlobalAveragePool", pooled, name="layer")
    assert len(checked(graph.model(made), units={made: 3 * graph.scales[made]}).results) == 1


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("data", "shape", "attributes"),
    [
        ((1, 6, 5, 6), (6, 4, 3, 3), {"group": 2, "strides": [2, 2], "output_padding": [1, 0]}),
        ((1, 6, 5, 6), (6, 1, 3, 3), {"group": 6, "strides": [2, 2], "pads": [1, 1, 0, 1]}),
        ((1, 6, 5, 6), (6, 7, 2, 3), {"dilations": [2, 2], "strides": [1, 2], "pads": [1, 0, 1, 2]}),
        ((1, 6, 9), (6, 7, 4), {"strides": [2], "pads": [1, 1]}),
        ((1, 6, 9), (6, 7, 3), {"strides": [3], "auto_pad": "SAME_LOWER"}),
    ],
)
def test_transposed_convolutions(dtype, data, shape, attributes):
    graph = QdqModel(seed=3, dtype=dtype)
    filters = shape[1] * attributes.get("group", 1)
    made = convolution(
        graph, "ConvTranspose", graph.input(*data), shape, axis=1, filters=filters,
        per_channel="group" not in attributes, **attributes,
    )  # fmt: skip
    alone(graph, made)


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((1, 12, 7, 9), {"kernel_shape": [2, 3], "dilations": [2, 2]}),
        ((1, 12, 7, 9), {"kernel_shape": [3, 3], "dilations": [2, 1], "pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ((1, 12, 9), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
        ((1, 12, 9), {"kernel_shape": [2], "strides": [2], "ceil_mode": 1}),
    ],
)
def test_greatest_values(shape, attributes):
    graph = QdqModel(seed=4)
    alone(graph, graph.layer("MaxPool", graph.input(*shape), same=True, name="layer", **attributes))


@pytest.mark.sample(5)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((1, 12, 7, 9), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ((1, 12, 7, 9), {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 2]}),
        ((1, 12, 6, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
        ((1, 12, 6, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "pads": [1] * 4,
                         "count_include_pad": 1}),
        ((1, 12, 6, 8), {"kernel_shape": [5, 5], "auto_pad": "SAME_UPPER"}),
        ((1, 12, 9), {"kernel_shape": [3], "pads": [1, 1]}),
    ],
)  # fmt: skip
def test_averages_of_windows_with_padding(dtype, shape, attributes):
    graph = QdqModel(seed=5, dtype=dtype)
    alone(graph, graph.layer("AveragePool", graph.input(*shape), scale=0.01, name="layer", **attributes))


@pytest.mark.sample(7)
@pytest.mark.parametrize(
    ("shape", "axes", "keepdims"),
    [
        ((2, 9, 20), [2], 1),
        ((2, 9, 20), [-1], 0),
        ((2, 9, 20), [1], 1),
        ((2, 9, 20), [1], 0),
        ((1, 12, 5, 6), [2, 3], 0),
        ((1, 12, 5, 6), [2], 1),
        ((1, 12, 5, 6), [3], 0),
        ((1, 12, 5, 6), [1], 1),
        ((1, 12, 5, 6), [1, 2, 3], 0),
        ((4, 30), [1], 1),
        ((4, 30), [0], 0),
        ((2, 3, 4, 5, 6), [2], 1),
        ((1, 12, 5, 6), [0, 1, 2, 3], 0),
        ((40,), [0], 0),
        ((), None, 1),
    ],
)
def test_averages_along_dimensions(shape, axes, keepdims):
    graph = QdqModel(seed=6, dtype="uint8")
    along = {} if axes is None else {"axes": axes}
    alone(graph, graph.layer("ReduceMean", graph.input(*shape), scale=0.01, keepdims=keepdims, name="layer", **along))


@pytest.mark.sample(1)
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_consumers_of_a_pad(mode):
    """A convolution, a Concat and an average of channels read a Pad, whose 12 channels have 4 padding channels."""
    graph = QdqModel(seed=33)
    data = graph.input(1, 12, 7, 9)
    more = [graph.constant(np.array(graph.scales[data] * 9, np.float32))] if mode == "constant" else []
    widths = graph.constant(np.array([0, 0, 1, 2, 0, 0, 2, -1]))
    made = graph.layer("Pad", data, widths, *more, same=True, mode=mode)
    largest = graph.layer("Concat", made, made, axis=1, same=True)
    means = graph.layer("ReduceMean", largest, axes=[1], scale=0.01)
    alone(graph, graph.layer("Add", graph.conv(made, 18, scale=0.2, pads=[1] * 4), means, scale=0.2, name="layer"))


def test_rows_name_the_operator_that_computes():
    """A function of a tensor and a dequantised constant; and both nodes that stay on the host CPU for one reason."""
    graph = QdqModel(seed=34)
    data, (held, _) = graph.input(1, 12, 5, 6), graph.weights(1, 12, 1, 1, per_channel=False)
    alone(graph, graph.layer("Mul", data, held, scale=0.02, name="layer"))
    graph = QdqModel(seed=35)
    weights, _ = graph.weights(18, 12, 1, 1, 1, per_channel=False)
    made = graph.quantised(
        graph.node("Relu", graph.node("Conv", graph.input(1, 12, 5, 6, 4), weights, name="conv"), name="relu"), 0.1
    )
    rows = {row.name: row.why for row in checked(graph.model(made), units={made: 0.1}).layers}
    assert rows["conv"] == rows["relu"]
    check_mentions(rows["conv"], "3 spatial dimensions", "1 or 2")


def test_an_average_along_no_dimension():
    graph = QdqModel(seed=6, dtype="uint8", opset=18)
    alone(graph, graph.layer("ReduceMean", graph.input(3, 20), scale=0.01, noop_with_empty_axes=1, name="layer"))


@pytest.mark.sample(5)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Max", "Min"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1, 1)])
def test_a_tensor_and_a_computed_scalar(dtype, kind, shape):
    graph = QdqModel(seed=30, dtype=dtype)
    data, number = graph.input(1, 12, 5, 6), graph.input(*shape, name="number", scale=0.03)
    alone(graph, graph.layer(kind, data, number, scale=0.04, name="layer"))


@pytest.mark.parametrize("kept", [0, 1])
def test_a_scalar_that_a_layer_computes(kept):
    """A multiplication by the average of all values, in one stream; then by two numbers."""
    graph = QdqModel(seed=31)
    data = graph.input(3, 20)
    number = graph.layer("ReduceMean", data, scale=0.01, keepdims=kept)
    assert len(alone(graph, graph.layer("Mul", data, number, scale=0.01, name="layer")).results) == 1
    graph = QdqModel(seed=32)
    made = graph.layer("Add", graph.input(), graph.input(name="other"), scale=0.04)
    alone(graph, graph.layer("Sigmoid", made, scale=0.01, name="layer"))


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((20, 5), {"transA": 1}),
        ((5, 20), {"alpha": 0.5, "beta": 2.0}),
        ((5, 20), {"alpha": -1.5}),
        ((5, 20), {"beta": 0.0}),
    ],
)
def test_gemms(shape, attributes):
    graph = QdqModel(seed=7)
    data = graph.input(*shape)
    weights, scales = graph.weights(20, 24, axis=1)
    bias = graph.bias(data, scales)
    alone(graph, graph.quantised(graph.node("Gemm", data, weights, bias, name="layer", **attributes), 0.1))


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("points", [(0, 0), (7, 0), (0, -9), (7, -9), (-128, -128)])
@pytest.mark.parametrize(
    ("first", "second"), [((2, 9, 20), (2, 20, 11)), ((1, 2, 9, 20), (1, 2, 20, 33)), ((9, 20), (20, 4))]
)
def test_matmuls_of_two_tensors(dtype, points, first, second):
    graph = QdqModel(seed=8, dtype=dtype)
    a, b = (point + (128 if dtype == "uint8" else 0) for point in points)
    left = graph.quantised(graph.input(*first), 0.02, a)
    right = graph.quantised(graph.input(*second, name="y"), 0.02, b)
    alone(graph, graph.quantised(graph.node("MatMul", left, right, name="layer"), 0.05))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("first", "second"), [((9, 20), (2, 20, 11)), ((2, 3, 9, 20), (3, 20, 11)), ((2, 1, 9, 20), (1, 3, 20, 11))]
)
def test_matmuls_with_broadcasting(first, second):
    graph = QdqModel(seed=9)
    left = graph.quantised(graph.input(*first), 0.02, 3)
    right = graph.quantised(graph.input(*second, name="y"), 0.02, 4)
    alone(graph, graph.quantised(graph.node("MatMul", left, right, name="layer"), 0.05))


@pytest.mark.parametrize("first", [True, False])
def test_matmuls_with_a_constant_operand(first):
    graph = QdqModel(seed=10)
    data = graph.input(2, 20, 20)
    weights, _ = graph.weights(*((9, 20) if first else (2, 20, 9)), per_channel=False)
    operands = (weights, data) if first else (data, weights)
    alone(graph, graph.quantised(graph.node("MatMul", *operands, name="layer"), 0.05))


@pytest.mark.sample(7)
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Max", "Min"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((2, 12, 5, 6), (2, 12, 5, 6)),
        ((2, 12, 5, 6), (1, 12, 1, 1)),
        ((2, 12, 5, 6), (2, 12, 1, 6)),
        ((2, 12, 5, 6), (12, 5, 6)),
        ((2, 12, 5, 6), (6,)),
        ((2, 12, 1, 6), (1, 12, 5, 1)),
        ((2, 9, 20), (2, 9, 20)),
        ((2, 9, 20), (20,)),
        ((2, 9, 20), (9, 1)),
        ((7, 20), (1, 20)),
        ((2, 3, 4, 5, 6), (2, 3, 4, 5, 6)),
        ((2, 3, 4, 5, 6), (4, 1, 6)),
    ],
)
def test_two_tensors_of_any_shapes(kind, first, second):
    graph = QdqModel(seed=11, dtype="uint8")
    left, right = graph.input(*first), graph.input(*second, name="y", scale=0.03)
    alone(graph, graph.quantised(graph.node(kind, left, right, name="layer"), 0.03))


@pytest.mark.sample(5)
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("shape", [(2, 12, 5, 6), (12, 5, 6), (2, 9, 20), (9, 20)])
@pytest.mark.parametrize("turned", [False, True])
def test_a_tensor_and_a_constant(kind, shape, turned):
    graph = QdqModel(seed=12)
    held, _ = graph.weights(*shape, per_channel=False)
    operands = graph.input(2, *shape) if len(shape) < 4 else graph.input(*shape), held
    alone(graph, graph.quantised(graph.node(kind, *(operands[::-1] if turned else operands), name="layer"), 0.03))


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", ["Conv", "MaxPool", "Add", "MatMul"])
@pytest.mark.parametrize("limits", [(0.0, 0.7), (-0.3, 0.5), (0.0, 1e3), (0.2, 0.4)])
def test_clips_before_8_bits(kind, limits):
    graph = QdqModel(seed=13, opset=17)
    data = graph.input(1, 12, 6, 8)
    low, high = (graph.constant(np.array(each, np.float32)) for each in limits)
    if kind == "Conv":
        weights, scales = graph.weights(18, 12, 3, 3)
        made = graph.node(kind, data, weights, graph.bias(data, scales), name="layer")
    elif kind == "MaxPool":
        made = graph.node(kind, data, kernel_shape=[2, 2], name="layer")
    elif kind == "Add":
        made = graph.node(kind, data, graph.input(1, 12, 6, 8, name="y"), name="layer")
    else:
        made = graph.node(kind, data, graph.weights(8, 9, axis=1)[0], name="layer")
    alone(graph, graph.quantised(graph.node("Clip", made, low, high), 0.01))


@pytest.mark.parametrize("chain", [["Relu"], ["Sigmoid", "Tanh"], ["HardSwish"]])
@pytest.mark.parametrize("shape", [(7, 20), (2, 9, 20), (2, 3, 4, 5, 6), (30,)])
def test_functions_of_any_rank(chain, shape):
    graph = QdqModel(seed=14, dtype="uint8")
    made = graph.input(*shape)
    for number, kind in enumerate(chain):
        made = graph.node(kind, made, name="layer" if number == 0 else "")
    made = graph.quantised(made, 0.01)
    result = checked(graph.model(made), units={made: 0.01})
    assert [row.where for row in result.layers].count("npu") == 1


@pytest.mark.parametrize(("shape", "held"), [((2, 9, 20), (20,)), ((2, 9, 20), (9, 1)), ((2, 5, 6, 20), (20,))])
def test_functions_along_the_last_dimension_or_of_channels(shape, held):
    graph = QdqModel(seed=15)
    constant = graph.constant(graph.random.uniform(0.5, 2, held).astype(np.float32))
    made = graph.quantised(graph.node("Mul", graph.input(*shape), constant, name="layer"), 0.03)
    result = checked(graph.model(made), units={made: 0.03})
    assert [row.where for row in result.layers].count("npu") == 1


def sizes(graph, *numbers):
    return graph.constant(np.array(numbers, np.int64))


@pytest.mark.sample(6)
@pytest.mark.parametrize("shape", [(6, 20), (2, 6, 20), (2, 6, 3, 20), (2, 6, 3, 4, 10)])
@pytest.mark.parametrize("kind", ["Transpose", "Reshape", "Concat", "Slice", "Split", "Pad", "Unsqueeze"])
def test_moves_of_any_rank(kind, shape):
    graph = QdqModel(seed=16, dtype="uint8")
    data, rank = graph.input(*shape), len(shape)
    axis = 1
    if kind == "Concat":
        made = graph.layer(kind, data, graph.input(*shape, name="y"), same=True, name="layer", axis=axis)
    elif kind == "Transpose":
        made = graph.layer(kind, data, same=True, name="layer", perm=[*range(rank)][::-1])
    elif kind == "Reshape":
        made = graph.layer(kind, data, sizes(graph, -1, shape[-1] * shape[-2]), same=True, name="layer")
    elif kind == "Slice":
        held = sizes(graph, 1), sizes(graph, shape[axis] - 1), sizes(graph, axis), sizes(graph, 2)
        made = graph.layer(kind, data, *held, same=True, name="layer")
    elif kind == "Split":
        graph.nodes.append(onnx_split(graph, data, axis, shape[axis] // 2, shape[axis]))
        made = graph.quantised(graph.nodes[-1].output[1], graph.scales[data])
    elif kind == "Pad":
        made = graph.layer(kind, data, sizes(graph, *[1] * rank, *[2] * rank), same=True, name="layer")
    else:
        made = graph.layer(kind, data, sizes(graph, axis), same=True, name="layer")
    alone(graph, made)


def onnx_split(graph, data, axis, first, total):
    from onnx import helper

    held = sizes(graph, first, total - first)
    name = f"t{len(graph.nodes)}"
    return helper.make_node("Split", [data, held], [f"{name}a", f"{name}b"], "layer", axis=axis)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("kind", ["Conv", "grouped", "MatMul"])
@pytest.mark.parametrize("point", [0, 100, 255])
def test_weights_with_a_zero_point(dtype, kind, point):
    """Minus their zero point they do not fit int8."""
    graph = QdqModel(seed=17, dtype=dtype)
    shape = {"Conv": (18, 12, 3, 3), "grouped": (18, 4, 3, 3), "MatMul": (8, 9)}[kind]
    values = graph.random.integers(0, 256, shape).astype(np.uint8)
    held = [graph.constant(each) for each in (values, np.float32(0.004), np.uint8(point))]
    weights = graph.node("DequantizeLinear", *held)
    data = graph.input(1, 12, 6, 8)
    attributes = {} if kind == "MatMul" else {"group": 3 if kind == "grouped" else 1, "pads": [1] * 4}
    made = graph.node("MatMul" if kind == "MatMul" else "Conv", data, weights, name="layer", **attributes)
    alone(graph, graph.quantised(made, 0.2))


def test_windows_that_start_after_the_image_are_dropped():
    """ONNX's shape inference counts the window, and onnxruntime does not."""
    graph = QdqModel(seed=18)
    made = graph.layer(
        "AveragePool", graph.input(1, 12, 4, 4), name="layer", kernel_shape=[2, 2], strides=[4, 4], ceil_mode=1,
        pads=[0, 0, 1, 1],
    )  # fmt: skip
    result = alone(graph, made)
    assert result.outputs[made].shape == (1, 12, 1, 1)


@pytest.mark.parametrize(
    ("size", "told"),
    [
        ((6, 9), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 2]}),
        ((7, 7), {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [0, 1, 0, 2]}),
        ((9, 6), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 2, 1]}),
    ],
)
def test_a_partial_window_and_counted_padding(size, told):
    """Along the other dimension ONNX's shape inference counts a window that onnxruntime does not."""
    graph = QdqModel(seed=22)
    made = graph.layer(
        "AveragePool", graph.input(1, 12, *size), scale=0.01, name="layer", ceil_mode=1, count_include_pad=1, **told
    )
    alone(graph, made)


@pytest.mark.sample(5)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ((1, 12, 9, 9), {"kernel_shape": [2, 3], "dilations": [2, 2]}),
        ((1, 12, 9, 9), {"kernel_shape": [3, 3], "dilations": [3, 2], "pads": [1, 2, 2, 1]}),
        ((1, 12, 9, 9), {"kernel_shape": [3, 3], "dilations": [3, 2], "pads": [1, 2, 2, 1], "count_include_pad": 1}),
        ((1, 12, 8, 9), {"kernel_shape": [2, 2], "dilations": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
        ((1, 12, 20), {"kernel_shape": [3], "dilations": [2], "strides": [2], "pads": [1, 1]}),
    ],
)
def test_averages_with_dilations(dtype, shape, told):
    graph = QdqModel(seed=23, dtype=dtype, opset=19)
    alone(graph, graph.layer("AveragePool", graph.input(*shape), scale=0.01, name="layer", **told))


def test_channels_of_a_depthwise_convolution_that_are_regrouped():
    graph = QdqModel(seed=19)
    made = graph.conv(graph.input(1, 38, 1, 7), 38, 1, groups=38, name="layer")
    part = graph.layer("Slice", made, sizes(graph, 0), sizes(graph, 36), sizes(graph, 1), same=True)
    alone(graph, graph.layer("Reshape", part, sizes(graph, 1, 36, 7, 1), same=True))


def test_an_average_along_rows_of_a_computed_tensor():
    graph = QdqModel(seed=20)
    data = graph.conv(graph.input(1, 12, 5, 12), 3, name="first")
    alone(graph, graph.layer("ReduceMean", data, axes=[3], name="layer"))


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["Conv", "Add", "Mul", "AveragePool"])
def test_scales_out_of_the_range_of_rescale(kind):
    graph = QdqModel(seed=21)
    data = graph.input(1, 12, 5, 6)
    if kind == "Conv":
        weights, scales = graph.weights(18, 12, 3, 3)
        made = graph.node("Conv", data, weights, graph.bias(data, scales), name="layer")
    elif kind == "AveragePool":
        made = graph.node(kind, data, name="layer", kernel_shape=[2, 2])
    else:
        made = graph.node(kind, data, graph.input(1, 12, 5, 6, name="y"), name="layer")
    made = graph.quantised(made, 1e-12)
    result = checked(graph.model(made), units={made: 1e-12})
    row = next(row for row in result.layers if row.name == "layer")
    if kind == "Conv":  # the NPU computes its sums, and the host CPU quantises them
        assert (row.where, row.macs > 0) == ("npu", True)
    else:
        assert row.where == "host"
        check_mentions(row.why, "scale of its result", "too small")
