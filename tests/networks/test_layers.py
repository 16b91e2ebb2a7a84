"""Single QDQ layers on the NPU: onnxruntime's values within one unit, and exactly the reference's."""

import numpy as np
import pytest
from networks_checking import LATHE16, checked, where
from qdq_models import TYPES, QdqModel

import lathe as lt


def alone(graph: QdqModel, made: str, name: str):
    """Run the model; asserts that its layer ran on the NPU."""
    result = checked(graph.model(made), units={made: graph.scales[made]})
    assert {key: place for key, place in where(result).items() if "Linear" not in key} == {name: "npu"}
    return result


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("options", "attributes"),
    [
        ({}, {}),
        ({"relu": True}, {"pads": [1, 1, 1, 1]}),
        ({"kernel": 1}, {"strides": [2, 2]}),
        ({"bias": False}, {"pads": [0, 1, 2, 1], "strides": [2, 1]}),
        ({"per_channel": False}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ({}, {"auto_pad": "SAME_LOWER"}),
        ({}, {"auto_pad": "VALID"}),
        ({}, {"dilations": [2, 2], "pads": [2, 2, 2, 2]}),
        ({"groups": 2}, {"pads": [1, 1, 1, 1]}),
        ({"groups": 12}, {"pads": [1, 1, 1, 1]}),
    ],
)
def test_convolutions(dtype, options, attributes):
    graph = QdqModel(seed=1, dtype=dtype)
    result = alone(graph, graph.conv(graph.input(1, 12, 9, 8), 12, name="layer", **options, **attributes), "layer")
    row = next(row for row in result.layers if row.name == "layer")
    assert row.cycles >= row.bound > 0
    assert row.macs > 0
    assert row.bytes > 0


@pytest.mark.parametrize("shape", [(5, 20), (2, 3, 20), (20, 1)])
@pytest.mark.parametrize("relu", [False, True])
def test_matmuls(shape, relu):
    graph = QdqModel(seed=2)
    alone(graph, graph.product(graph.input(*shape), 24, relu=relu, name="layer"), "layer")


def test_gemm_with_a_bias():
    for transposed in (0, 1):
        graph = QdqModel(seed=3)
        data = graph.input(5, 20)
        weights, scales = graph.weights(*((24, 20) if transposed else (20, 24)), axis=0 if transposed else 1)
        made = graph.node("Gemm", data, weights, graph.bias(data, scales), name="layer", transB=transposed)
        made = graph.quantised(made, 0.3)
        alone(graph, made, "layer")


@pytest.mark.parametrize("relu", [False, True])
def test_sums(relu):
    graph = QdqModel(seed=4, dtype="uint8")
    made = graph.node("Add", graph.input(1, 12, 5, 6), graph.input(1, 12, 5, 6, name="y", scale=0.03), name="layer")
    alone(graph, graph.quantised(graph.node("Relu", made) if relu else made, 0.03), "layer")


@pytest.mark.parametrize("other", [(2, 12, 5, 6), (2, 12, 1, 1), (1, 12, 1, 1)])
def test_matmuls_of_two_tensors(other):
    graph = QdqModel(seed=5)
    made = graph.node("Mul", graph.input(2, 12, 5, 6), graph.input(*other, name="y"), name="layer")
    alone(graph, graph.quantised(made, 0.02), "layer")


@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"kernel_shape": [3, 2]},
        {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
    ],
)
def test_greatest_values(attributes):
    graph = QdqModel(seed=6)
    alone(graph, graph.layer("MaxPool", graph.input(1, 12, 7, 9), same=True, name="layer", **attributes), "layer")


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("GlobalAveragePool", {}),
        ("AveragePool", {"kernel_shape": [2, 3], "strides": [2, 1]}),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ("ReduceMean", {"axes": [2, 3]}),
        ("ReduceMean", {"axes": [-1, -2]}),
    ],
)
def test_averages(kind, attributes):
    graph = QdqModel(seed=7, dtype="uint8")
    alone(graph, graph.layer(kind, graph.input(1, 12, 7, 9), scale=0.01, name="layer", **attributes), "layer")


@pytest.mark.parametrize(
    "chain",
    [
        ["Relu"],
        ["Sigmoid"],
        ["Tanh"],
        ["LeakyRelu"],
        ["Exp"],
        ["HardSwish"],
        ["Abs", "Sqrt"],
        ["Neg", "Softplus", "Erf"],
    ],
)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_functions(chain, dtype):
    graph = QdqModel(seed=8, dtype=dtype)
    made = graph.input(1, 12, 5, 6)
    for kind in chain:
        made = graph.node(kind, made, name=f"{kind}s")
    made = graph.quantised(made, 0.01)
    result = checked(graph.model(made), units={made: 0.01})
    assert "npu" in where(result).values()


def test_x_times_sigmoid_of_x_is_one_lookup():
    graph = QdqModel(seed=9)
    data = graph.input(1, 12, 5, 6)
    sigmoid = graph.quantised(graph.node("Sigmoid", data), 1 / 256, -128)
    made = graph.quantised(graph.node("Mul", data, sigmoid), 0.02)
    result = checked(graph.model(made), units={made: 0.02})
    assert [row.where for row in result.layers].count("npu") == 1


def test_a_clipped_tensor_times_a_function_of_itself():
    """The Clip is a Lookup of an intermediate result that is not in the model; the function is matched on its result.

    This must not depend on the order of sets of tensor names, which changes from run to run.
    """
    for number in range(12):
        graph = QdqModel(seed=7)
        total = graph.node("Add", graph.input(1, 8, 5, 6), graph.input(1, 8, 5, 6, name="z"), name="total")
        limits = [graph.constant(np.array(each, np.float32)) for each in (-0.3, 0.7)]
        clipped = graph.quantised(graph.node("Clip", total, *limits), 0.01, 0)
        sigmoid = graph.quantised(graph.node("Sigmoid", clipped), 1 / 256, -128)
        made = graph.quantised(graph.node("Mul", clipped, sigmoid, name=f"layer{number}"), 0.01)
        kinds = [
            type(each).__name__
            for each in lt.from_onnx(_renamed(graph.model(made), f"n{number}")).found.layers.values()
        ]
        assert kinds == ["Sum", "Lookup", "Lookup", "Lookup"]
    checked(graph.model(made), units={made: 0.01})


def _renamed(model, prefix):
    """The model with renamed tensors."""
    for node in model.graph.node:
        node.input[:] = [name and prefix + name for name in node.input]
        node.output[:] = [prefix + name for name in node.output]
    for each in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        each.name = prefix + each.name
    return model


@pytest.mark.parametrize(
    ("before", "attributes"), [((1, 12, 1, 1), {}), ((1, 12, 3, 4), {}), ((2, 12, 3, 4), {"axis": 1})]
)
def test_flattened_images(before, attributes):
    graph = QdqModel(seed=10)
    data = graph.layer("Relu", graph.input(*before))
    alone_ = graph.layer("Flatten", data, same=True, name="layer", **attributes)
    result = checked(graph.model(alone_), units={alone_: graph.scales[alone_]})
    assert where(result)["layer"] == "npu"


def test_a_relu_after_quantisation_is_fused_into_the_convolution():
    graph = QdqModel(seed=11)
    made = graph.layer("Relu", graph.conv(graph.input(1, 12, 5, 6), 12, name="layer"), same=True, name="relu")
    result = checked(graph.model(made), units={made: graph.scales[made]})
    assert [row.name for row in result.layers if row.where == "npu"] == ["layer"]


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 6, 5)])
def test_a_constant_that_repeats_a_tensor_is_no_function_of_it(shape):
    graph = QdqModel(seed=12)
    held = graph.constant(graph.random.uniform(-1, 1, shape).astype(np.float32))
    made = graph.quantised(graph.node("Add", graph.input(6, 1), held), 0.02)
    result = checked(graph.model(made), units={made: 0.02})
    assert {row.where for row in result.layers} == {"host"}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("columns", [1, 24])
@pytest.mark.parametrize("rows", [5, 24])
def test_biases_of_rows(rows, columns, dtype):
    """A matrix or a column added to a matmul: each row has biases of its own."""
    graph = QdqModel(seed=13, dtype=dtype)
    data = graph.input(20, rows)
    weights, _ = graph.weights(24, 20)
    held = graph.constant(graph.random.uniform(-1, 1, (rows, columns)).astype(np.float32))
    made = graph.node("Gemm", data, weights, held, name="layer", alpha=0.5, beta=2.0, transA=1, transB=1)
    made = graph.quantised(graph.node("Relu", made), 0.3)
    assert where(checked(graph.model(made), units={made: 0.3}))["layer"] == "npu"


@pytest.mark.parametrize("scale", [1e-3, 3.0])
def test_biases_of_rows_in_units_of_sums_and_between_them(scale):
    """The finer the scale of the result, the more the fractional parts of biases matter."""
    graph = QdqModel(seed=20)
    data = graph.input(6, 20, scale=0.3)
    weights, scales = graph.weights(20, 24, axis=1, per_channel=False)
    values = graph.random.integers(-40, 40, (6, 24)).astype(np.int32)
    unit = np.array(graph.scales[data] * scales[0] * 0.37, np.float32)
    held = graph.node("DequantizeLinear", *map(graph.constant, (values, unit, np.int32(0))))
    made = graph.quantised(graph.node("Gemm", data, weights, held, name="layer"), scale)
    (layer,) = lt.from_onnx(graph.model(made)).found.layers.values()
    assert (layer.bias_residual is not None) == (scale < 0.1)
    alone(graph, made, "layer")


def test_sums_with_biases_of_rows_leave_the_machine():
    graph = QdqModel(seed=21)
    weights, _ = graph.weights(20, 24, axis=1)
    held = graph.constant(graph.random.uniform(-1, 1, (6, 24)).astype(np.float32))
    made = graph.node("Gemm", graph.input(6, 20), weights, held, name="layer")
    assert where(checked(graph.model(made), units={made: 1e-5}))["layer"] == "npu"


@pytest.mark.parametrize("shape", [(1, 5), (5, 5), (24, 5), (2, 12, 1)])
def test_biases_that_are_invalid(shape):
    """Biases that broadcast the result or have more dimensions: onnxruntime refuses them, too."""
    graph = QdqModel(seed=13)
    weights, _ = graph.weights(20, 24, axis=1)
    held = graph.constant(graph.random.uniform(-1, 1, shape).astype(np.float32))
    made = graph.node("Gemm", graph.input(24, 20), weights, held, name="layer")
    how = graph.constant(np.float32(0.3)), graph.constant(np.int8(0))
    model = graph._model([graph.node("DequantizeLinear", graph.node("QuantizeLinear", made, *how), *how)])
    with pytest.raises(lt.ModelError):
        lt.simulate(lt.from_onnx(model).build(LATHE16), {"x": np.zeros((24, 20), np.float32)})


def test_broadcasting_is_no_reshape():
    graph = QdqModel(seed=14)
    sizes = graph.constant(np.array([4, 6], np.int64))
    made = graph.layer("Expand", graph.input(1, 6), sizes, same=True, name="layer")
    assert where(checked(graph.model(made), units={made: graph.scales[made]}))["layer"] == "host"


def test_functions_that_the_host_cannot_tabulate_stay_nodes(monkeypatch):
    import lathe.frontend.onnx.tabulate_unary as functions

    def refuse(*_):
        raise lt.ModelError("nodes on the host must run with onnxruntime, and do not.")

    monkeypatch.setattr(functions, "run_on_host", refuse)
    graph = QdqModel(seed=15)
    made = graph.layer("Sigmoid", graph.input(1, 12, 5, 6), name="layer")
    assert where(checked(graph.model(made), units={made: graph.scales[made]}))["layer"] == "host"


def test_a_depthwise_convolution_of_channels_that_are_not_contiguous():
    graph = QdqModel(seed=16)
    parts = [graph.conv(graph.input(1, 3, 6, 7, name=name), 20, 1, scale=0.05) for name in ("x", "y")]
    both = graph.layer("Concat", *parts, scale=0.05, axis=1)
    made = graph.conv(both, 40, groups=40, pads=[1, 1, 1, 1])
    checked(graph.model(made), units={made: 3 * graph.scales[made]})


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_no_zero_point_is_one_of_zero(dtype):
    """The dtype then comes from an attribute, or is uint8."""
    graph = QdqModel(seed=17, opset=21)
    how = graph.constant(np.array(0.02, np.float32))
    told = {"output_dtype": TYPES[dtype]} if dtype == "int8" else {}
    data = graph.node("QuantizeLinear", graph.input(1, 12, 5, 6), how, **told)
    read = graph.node("DequantizeLinear", data, how)
    made = graph.node("QuantizeLinear", graph.node("Abs", read, name="layer"), how, **told)
    made = graph.node("DequantizeLinear", made, how)
    result = checked(graph.model(made), units={made: 0.02})
    assert "npu" in where(result).values()


def test_machines_that_differ_in_when_their_memory_answers_have_one_bound():
    graph = QdqModel(seed=1)
    network = lt.from_onnx(graph.model(graph.conv(graph.input(1, 12, 9, 8), 12, name="layer")))
    (layer,) = network.found.layers.values()
    machine = lt.load_config("lathe16")
    bound = network.bound(layer, machine)
    assert network.bound(layer, machine.with_(**{"memory.latency": 200, "memory.outstanding_reads": 2})) is bound
    slower = network.bound(layer, machine.with_(**{"memory.cycles_per_beat": 4}))
    assert slower.memory == 4 * bound.memory
