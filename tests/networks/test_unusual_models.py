"""Unusual legal models, which are computed, and illegal ones that onnxruntime refuses, which give an error."""

import numpy as np
import onnx
import pytest
from error_checks import raises
from networks_checking import LATHE16, checked, random_inputs, where, with_onnxruntime
from qdq_models import QdqModel

import lathe as lt


@pytest.mark.parametrize("axes", [[1, 1], [1, -3], [2, 3, 2]])
def test_a_dimension_that_is_named_twice_is_averaged_once(axes):
    graph = QdqModel(seed=1)
    made = graph.layer("ReduceMean", graph.input(1, 8, 6, 6), axes=axes, name="layer")
    result = checked(graph.model(made), units={made: graph.scales[made]})
    assert where(result)["layer"] == "npu"


def test_a_layer_with_an_infinite_bias_runs_on_the_host():
    graph = QdqModel(seed=2)
    weights, _ = graph.weights(5, 3, 3, 3)
    held = graph.constant(np.full(5, np.inf, np.float32))
    made = graph.quantised(graph.node("Conv", graph.input(1, 3, 6, 6), weights, held, name="layer"), 0.1)
    program = lt.from_onnx(graph.model(made)).build(LATHE16)
    rows = {row.name: row for row in lt.simulate(program, timing_only=True).layers}
    assert (rows["layer"].where, rows["layer"].why) == ("host", "its bias is not finite")


@pytest.mark.parametrize(("shape", "place"), [((), "npu"), ((0, 3), "host")])
def test_scalars_run_on_the_npu_and_empty_tensors_on_the_host(shape, place):
    graph = QdqModel(seed=3)
    made = graph.layer("Relu", graph.input(*shape), name="layer")
    result = checked(graph.model(made), units={made: graph.scales[made]})
    rows = {row.name: (row.where, row.why) for row in result.layers}
    assert rows["layer"] == (place, "" if place == "npu" else "tensor 't0' has no elements")


def test_an_average_along_no_dimension():
    graph = QdqModel(seed=4, opset=18)
    made = graph.layer("ReduceMean", graph.input(2, 6), noop_with_empty_axes=1, name="layer")
    checked(graph.model(made), units={made: graph.scales[made]})


@pytest.mark.parametrize(
    ("kind", "shape", "attributes"),
    [
        ("ConvTranspose", (5, 8, 3, 3), {}),
        ("ConvTranspose", (8, 5, 3, 3), {"output_padding": [3, 3], "strides": [2, 2]}),
        ("Conv", (5, 3, 3, 3), {}),
    ],
)
def test_what_onnxruntime_refuses_is_refused(kind, shape, attributes):
    graph = QdqModel(seed=5)
    weights, _ = graph.weights(*shape, axis=1 if kind == "ConvTranspose" else 0, per_channel=False)
    made = graph.quantised(graph.node(kind, graph.input(1, 8, 7, 7), weights, name="layer", **attributes), 0.1)
    model = graph._model([made])
    with pytest.raises(lt.ModelError) as caught:
        lt.simulate(lt.from_onnx(model).build(LATHE16), random_inputs(model))
    assert "layer" in str(caught.value)


def test_a_size_beyond_int64():
    graph = QdqModel(seed=6)
    model = graph.model(graph.layer("Relu", graph.input(1, 3, 6, 6)))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    shape = [1 << 63, 3, 6, 6]
    raises(lt.ModelError, lt.from_onnx, model, {"x": shape}, mentions=("input 'x'", "'model'", "[n, 3, 6, 6]", shape))


@pytest.mark.slow
def test_a_pad_of_a_matmul_whose_rows_are_an_image():
    """The matmul computes rows and columns, and its consumer with windows reads four dimensions of an image."""
    graph = QdqModel(seed=3)
    data = graph.input(3, 17, 8, 9)
    weights, _ = graph.weights(9, 25, per_channel=False)
    bias = graph.constant(np.zeros(25, np.float32))
    product = graph.quantised(graph.node("Add", graph.node("MatMul", data, weights), bias), 0.05, 2)
    squares = graph.quantised(graph.node("Mul", product, product), 0.1, -100)
    kernel, _ = graph.weights(19, 17, 1, 2, per_channel=False)
    how = {"dilations": [2, 1], "pads": [1, 0, 1, 1], "strides": [1, 3]}
    last = graph.quantised(graph.node("Conv", squares, kernel, **how), 0.5, 0)
    factors = graph.constant(np.linspace(-1, 1, 17, dtype=np.float32).reshape(17, 1, 1))
    scaled = graph.quantised(graph.node("Mul", data, factors), 0.023, 1)
    sizes = graph.quantised(graph.node("Abs", product), 0.03, -128)
    shifted = graph.quantised(graph.node("Add", sizes, factors), 0.05, -100)
    made = [scaled, shifted, last]
    checked(graph.model(*made), units={each: graph.scales[each] for each in made})


TWO_SCALES = """<ir_version: 8, opset_import: ["": 17]>
graph (int8[1, 4, 6, 6] x) => (%s)
<float s = {0.02}, int8 z = {5}, float t = {0.05}, int8 u = {-7}, float sy = {0.06}, int8 zy = {3},
 int64[2] sizes = {4, 36}, int8[1, 2, 6, 6] held = {%s}>
{
    a = DequantizeLinear (x, s, z)
    b = DequantizeLinear (x, t, u)
    %s
}"""
HELD = ", ".join(map(str, range(-36, 36)))
READERS = {
    "one node": ("int8[1, 8, 6, 6] y", "c = Concat <axis = 1> (a, b) y = QuantizeLinear (c, sy, zy)"),
    "two nodes": (
        "int8[1, 6, 4, 6] y, int8[4, 36] w",
        "c = Transpose <perm = [0, 2, 1, 3]> (a) y = QuantizeLinear (c, sy, zy)"
        "d = Reshape (b, sizes) w = QuantizeLinear (d, sy, zy)",
    ),
    "a constant": (
        "int8[1, 8, 6, 6] y",
        "k = DequantizeLinear (held, s, z) l = DequantizeLinear (held, t, u)"
        "c = Concat <axis = 1> (a, k, l) y = QuantizeLinear (c, sy, zy)",
    ),
}


@pytest.mark.parametrize("readers", READERS)
def test_a_moved_tensor_with_two_quantisations_is_requantised_from_each(readers):
    outputs, nodes = READERS[readers]
    model = onnx.parser.parse_model(TWO_SCALES % (outputs, HELD, nodes))
    inputs = {"x": np.random.default_rng(0).integers(-128, 128, (1, 4, 6, 6)).astype(np.int8)}
    network = lt.from_onnx(model)
    result = lt.simulate(network.build(LATHE16), inputs)
    for info, expected in zip(model.graph.output, with_onnxruntime(model, inputs), strict=True):
        assert np.array_equal(result.outputs[info.name], expected)
        assert np.array_equal(lt.reference(network, inputs)[info.name], expected)
    assert "npu" in where(result).values()
