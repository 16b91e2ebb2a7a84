"""Sinking of DequantizeLinear of weights through data movement, so that layers match the weights."""

import numpy as np
import onnx
import pytest
from networks_checking import checked, random_inputs, where, with_onnxruntime
from onnx import TensorProto, numpy_helper
from qdq_models import QdqModel

import lathe as lt
from lathe.frontend.onnx.reading import read_model
from lathe.frontend.onnx.sink_dq_through_moves import MOVED
from lathe.frontend.onnx.value_types import TensorType


def sizes(graph, *numbers):
    return graph.constant(np.array(numbers, np.int64))


def of(shape, axis, *moves):
    """Data movement of weights with scales along an axis."""

    def made(graph, per_channel):
        name, _ = graph.weights(*shape, axis=axis, per_channel=per_channel)
        for kind, numbers, attributes in moves:
            name = graph.node(kind, name, *(sizes(graph, *each) for each in numbers), **attributes)
        return name

    return made


TRANSPOSE = ("Transpose", (), {})
OF_PRODUCTS = {  # (8, 5) in the end, with scales along the second dimension
    "transposed": of((5, 8), 0, TRANSPOSE),
    "reshaped": of((2, 4, 5), 2, ("Reshape", [(8, 5)], {})),
    "flattened": of((8, 1, 5), 2, ("Flatten", (), {"axis": 1})),
    "without a dimension": of((8, 1, 5), -1, ("Squeeze", [(1,)], {})),
    "with another dimension": of((40,), 0, ("Unsqueeze", [(0,)], {}), ("Reshape", [(5, 8)], {}), TRANSPOSE),
    "a part of its filters": of((8, 9), 1, ("Slice", [(1,), (6,), (1,)], {})),
    "every other filter, backwards": of((8, 9), 1, ("Slice", [(9,), (-10,), (1,), (-2,)], {})),
    "a part of what is summed over": of((11, 5), 1, ("Slice", [(2,), (10,), (0,)], {})),
    "chosen filters": of((7, 8), 0, ("Gather", [(6, 0, 0, 3, 2)], {"axis": 0}), TRANSPOSE),
    "repeated filters": of((5, 1), 0, ("Tile", [(1, 8)], {}), TRANSPOSE),
    "several moves": of((2, 5, 4), 1, ("Transpose", (), {"perm": [0, 2, 1]}), ("Reshape", [(8, 5)], {})),
    "groups of filters": of((5, 4, 2), 0, ("Reshape", [(5, 8)], {}), TRANSPOSE),
}
ALONE = {"with another dimension"}
"""Data movement through which only a single scale can be propagated."""


@pytest.mark.sample(7)
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("case", OF_PRODUCTS)
def test_matmuls(case, per_channel):
    graph = QdqModel(seed=3)
    weights = OF_PRODUCTS[case](graph, per_channel)
    sums = graph.node("MatMul", graph.input(3, 8), weights, name="layer")
    model = graph.model(graph.quantised(sums, 0.05))
    result = checked(model, units={model.graph.output[0].name: 0.05})
    kinds = [node.op_type for node in read_model(model).nodes]
    stays = case in ALONE and per_channel
    assert where(result)["layer"] == ("host" if stays else "npu")
    assert stays == bool(MOVED & {*kinds})


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose", "Gemm"])
def test_other_matmuls(kind):
    graph = QdqModel(seed=4, dtype="uint8")
    if kind == "Gemm":
        data, shape, moved, axis, more = graph.input(3, 8), (1, 5, 8), (5, 8), 1, {"transB": 1}
    else:
        data, shape, moved, axis, more = graph.input(1, 4, 6, 6), (4, 4, 9), (4, 4, 3, 3), kind == "ConvTranspose", {}
    weights, _ = graph.weights(*shape, axis=int(axis))
    weights = graph.node("Reshape", weights, sizes(graph, *moved))
    sums = graph.node(kind, data, weights, name="layer", **more)
    result = checked(graph.model(graph.quantised(sums, 0.05)), units={f"t{len(graph.nodes) - 1}": 0.05})
    assert where(result)["layer"] == "npu"


def test_zero_points_move_with_scales():
    graph = QdqModel(seed=5)
    values, zero = (graph.random.integers(0, 256, shape).astype(np.uint8) for shape in ((5, 8), 5))
    scale = graph.random.uniform(0.002, 0.006, 5).astype(np.float32)
    held = graph.node("DequantizeLinear", *map(graph.constant, (values, scale, zero)), axis=0)
    part = graph.node("Slice", held, *(sizes(graph, each) for each in (1, 4, 0)))
    made = read_model(graph.model(graph.node("Transpose", part))).nodes
    (node,) = made
    graph_of = read_model(graph.model(f"t{len(graph.nodes) - 1}"))
    assert (node.op_type, node.output[0]) == ("DequantizeLinear", f"t{len(graph.nodes) - 1}")
    assert np.array_equal(graph_of.constant(node.input[0]), values[1:4].T)
    assert np.array_equal(graph_of.constant(node.input[1]), scale[1:4])
    assert np.array_equal(graph_of.constant(node.input[2]), zero[1:4])
    assert [each.i for each in node.attribute] == [1]


def test_a_single_output_channel():
    graph = QdqModel(seed=6)
    weights, _ = graph.weights(4, 8, 5, axis=0)
    chosen = graph.node("Gather", weights, graph.constant(np.array(2)))
    sums = graph.node("MatMul", graph.input(3, 8), chosen, name="layer")
    result = checked(graph.model(graph.quantised(sums, 0.05)), units={f"t{len(graph.nodes) - 1}": 0.05})
    assert where(result)["layer"] == "npu"


def test_constants_with_other_consumers_stay():
    """A layer also reads the constant itself, and the moved constant is an output of the model."""
    graph = QdqModel(seed=7)
    data = graph.input(8, 8)
    weights, _ = graph.weights(8, 8, axis=1, per_channel=False)
    turned = graph.node("Transpose", weights)
    first, second = (
        graph.quantised(graph.node("MatMul", data, each, name=name), 0.05)
        for each, name in ((weights, "plain"), (turned, "turned"))
    )
    model = graph.model(first, second, turned)
    result = checked(model, units={first: 0.05, second: 0.05})
    assert (where(result)["plain"], where(result)["turned"]) == ("npu", "npu")
    assert np.array_equal(result.outputs[turned], with_onnxruntime(model, random_inputs(model))[2])


def test_splits_of_one_constant():
    """A Split of one matrix into queries, keys and values, with scales along the split axis."""
    graph = QdqModel(seed=8)
    data = graph.input(3, 8)
    weights, _ = graph.weights(8, 12, axis=1)
    graph.node("Split", weights, sizes(graph, 4, 3, 5), axis=1)
    graph.nodes[-1].output.extend(["second", "third"])
    parts = [graph.nodes[-1].output[0], "second", "third"]
    made = [graph.quantised(graph.node("MatMul", data, each, name=each), 0.05) for each in parts]
    result = checked(graph.model(*made), units=dict.fromkeys(made, 0.05))
    assert {where(result)[each] for each in parts} == {"npu"}


def test_constants_that_are_not_moved():
    """Scales that would vary along several dimensions, block scales, computed sizes, 4 bits, large results."""

    def kinds(make, opset=17):
        graph = QdqModel(seed=9, opset=opset)
        return [node.op_type for node in read_model(graph.model(make(graph))).nodes]

    moved = ["DequantizeLinear", "Transpose"]
    assert kinds(lambda graph: graph.node("Transpose", graph.weights(5, 8)[0])) == ["DequantizeLinear"]
    assert kinds(lambda graph: graph.node("Reshape", graph.weights(5, 8)[0], sizes(graph, 8, 5))) == [
        "DequantizeLinear", "Reshape",
    ]  # fmt: skip

    def in_blocks(graph):
        values = np.ones((4, 6), np.int8)
        held = graph.constant(values), graph.constant(np.ones((4, 3), np.float32))
        return graph.node("Transpose", graph.node("DequantizeLinear", *held, axis=1, block_size=2))

    assert kinds(in_blocks, opset=21) == moved

    def of_four_bits(graph):
        graph.held.append(onnx.helper.make_tensor("w", TensorProto.INT4, [4, 6], [1] * 24))
        return graph.node("Transpose", graph.node("DequantizeLinear", "w", graph.constant(np.array(1, np.float32))))

    assert kinds(of_four_bits, opset=21) == moved
    large = ["DequantizeLinear", "Tile"]
    assert kinds(lambda graph: graph.node("Tile", graph.weights(5, 8)[0], sizes(graph, 100, 500))) == large


def test_scales_of_halves():
    """float16 scales keep their type, and outputs keep name and type."""
    graph = QdqModel(seed=10, opset=21)
    values = graph.random.integers(-127, 128, (5, 8)).astype(np.int8)
    scale = graph.random.uniform(0.002, 0.006, 5).astype(np.float16)
    held = graph.node("DequantizeLinear", graph.constant(values), graph.constant(scale), axis=0)
    turned = graph.node("Transpose", held)
    numbers = graph.node("Cast", turned, to=TensorProto.FLOAT)
    network = lt.from_onnx(graph.model(numbers))
    assert network.model.types[turned] == TensorType("float16", (8, 5))
    (made,) = lt.reference(network, {}).values()
    assert np.array_equal(made, (values * scale[:, np.newaxis]).astype(np.float16).astype(np.float32).T)
    assert numpy_helper.to_array(network.model.initializers[network.model.nodes[0].input[1]]).dtype == np.float16
