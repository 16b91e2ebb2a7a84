"""ConvInteger and MatMulInteger: int32 sums equal to onnxruntime's, also with computed zero points."""

import numpy as np
import onnx
import pytest
from error_checks import check_mentions
from networks_checking import LATHE16, where, with_onnxruntime
from onnx import TensorProto, helper, numpy_helper

import lathe as lt

TYPES = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "float32": TensorProto.FLOAT, "int32": TensorProto.INT32}


def model_of(nodes, held, inputs, output="y", kind="int32") -> onnx.ModelProto:
    """A model with inferred shapes."""
    graph = helper.make_graph(
        nodes,
        "integers",
        [helper.make_tensor_value_info(name, TYPES[dtype], shape) for name, (dtype, shape) in inputs.items()],
        [helper.make_tensor_value_info(output, TYPES[kind], None)],
        [numpy_helper.from_array(np.asarray(values), name) for name, values in held.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    inferred = onnx.shape_inference.infer_shapes(made, data_prop=True)
    made.graph.output[0].CopyFrom(inferred.graph.output[0])
    return made


def exact(model, inputs, config=LATHE16) -> lt.NetworkResult:
    """Run a model; asserts that results equal onnxruntime's and the reference's."""
    network = lt.from_onnx(model)
    result = lt.simulate(network.build(config), inputs)
    (expected,), (made,) = with_onnxruntime(model, inputs), result.outputs.values()
    assert made.dtype == expected.dtype
    assert np.array_equal(made, expected)
    assert np.array_equal(made, next(iter(lt.reference(network, inputs).values())))
    assert sum(row.cycles for row in result.layers) == result.cycles
    return result


def values(generator, shape, dtype):
    limits = np.iinfo(dtype)
    return generator.integers(limits.min, limits.max + 1, shape).astype(dtype)


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("point", ["none", "constant", "computed"])
@pytest.mark.parametrize("shape", [(5, 20), (2, 3, 20), (3, 600)])
def test_matmuls(dtype, point, shape):
    generator = np.random.default_rng(1)
    held = {"w": values(generator, (shape[-1], 24), "int8")}
    inputs = {"x": (dtype, shape)}
    given = {"x": values(generator, shape, dtype)}
    if point == "constant":
        held["z"] = np.array(7, dtype)
    if point == "computed":
        inputs["z"], given["z"] = (dtype, ()), np.array(7, dtype)
    node = helper.make_node("MatMulInteger", ["x", "w", *([] if point == "none" else ["z"])], ["y"], "layer")
    assert where(exact(model_of([node], held, inputs), given)) == {"layer": "npu"}


@pytest.mark.sample(5)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("constant", ["none", "first", "second"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((5, 20), (20, 24)),
        ((2, 5, 20), (2, 20, 7)),
        ((20,), (20, 24)),
        ((5, 20), (20,)),
        ((20,), (20,)),
        ((20,), (3, 20, 24)),
        ((3, 5, 20), (20,)),
    ],
)
def test_matmuls_of_two_tensors(dtype, constant, first, second):
    """Either operand may be a constant or a vector."""
    generator = np.random.default_rng(10)
    given = {"x": values(generator, first, dtype), "w": values(generator, second, "int8")}
    held = {"z": np.array(7, dtype), "zw": np.array(-3, np.int8)}
    name = {"first": "x", "second": "w"}.get(constant)
    if name is not None:
        held[name] = given.pop(name)
    inputs = {name: (str(each.dtype), each.shape) for name, each in given.items()}
    node = helper.make_node("MatMulInteger", ["x", "w", "z", "zw"], ["y"], "layer")
    assert where(exact(model_of([node], held, inputs), given)) == {"layer": "npu"}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("zero", [np.uint8(0), np.uint8(130), np.arange(24).astype(np.uint8) * 10])
def test_weights_with_zero_points(dtype, zero):
    generator = np.random.default_rng(2)
    held = {"w": values(generator, (20, 24), "uint8"), "zw": zero}
    inputs = {"x": (dtype, (5, 20)), "z": (dtype, (1,))}
    given = {"x": values(generator, (5, 20), dtype), "z": np.array([99], dtype)}
    node = helper.make_node("MatMulInteger", ["x", "w", "z", "zw"], ["y"], "layer")
    assert where(exact(model_of([node], held, inputs), given)) == {"layer": "npu"}


@pytest.mark.sample(2)
@pytest.mark.parametrize("point", ["none", "constant", "computed"])
@pytest.mark.parametrize(
    ("shape", "weights", "attributes"),
    [
        ((1, 12, 7, 8), (18, 12, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((2, 12, 7, 8), (18, 12, 3, 2), {"strides": [2, 1], "pads": [0, 1, 2, 0]}),
        ((1, 12, 7, 8), (18, 12, 3, 3), {"dilations": [2, 2], "pads": [2, 1, 0, 2]}),
        ((1, 12, 9), (18, 12, 3), {"pads": [1, 1]}),
    ],
)
def test_convolutions(point, shape, weights, attributes):
    """Padding has the value of the zero point."""
    generator = np.random.default_rng(3)
    held = {"w": values(generator, weights, "int8")}
    inputs, given = {"x": ("uint8", shape)}, {"x": values(generator, shape, "uint8")}
    if point == "constant":
        held["z"] = np.array(140, np.uint8)
    if point == "computed":
        inputs["z"], given["z"] = ("uint8", ()), np.array(140, np.uint8)
    node = helper.make_node(
        "ConvInteger", ["x", "w", *([] if point == "none" else ["z"])], ["y"], "layer", **attributes
    )
    assert where(exact(model_of([node], held, inputs), given)) == {"layer": "npu"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("groups", [3, 12])
@pytest.mark.parametrize("point", ["none", "constant", "computed"])
def test_groups(groups, point):
    generator = np.random.default_rng(4)
    held = {"w": values(generator, (12, 12 // groups, 3, 3), "int8")}
    inputs, given = {"x": ("uint8", (1, 12, 7, 8))}, {"x": values(generator, (1, 12, 7, 8), "uint8")}
    if point == "constant":
        held["z"] = np.array(140, np.uint8)
    if point == "computed":
        inputs["z"], given["z"] = ("uint8", ()), np.array(140, np.uint8)
    names = ["x", "w", *([] if point == "none" else ["z"])]
    node = helper.make_node("ConvInteger", names, ["y"], "layer", group=groups, pads=[1, 1, 1, 1])
    result = exact(model_of([node], held, inputs), given)
    (row,) = result.layers
    assert row.where == ("host" if point == "computed" else "npu")
    check_mentions(row.why, *(("grouped", "computed zero point") if point == "computed" else ()))


def test_sums_beyond_two_bytes():
    """All values and weights are extreme."""
    held = {"w": np.where(np.arange(24) % 2, -128, 127).astype(np.int8) * np.ones((4000, 1), np.int8)}
    given = {"x": np.stack([np.full(4000, value, np.uint8) for value in (0, 255, 128)])}
    for zero in (0, 255):
        held["z"] = np.array(zero, np.uint8)
        node = helper.make_node("MatMulInteger", ["x", "w", "z"], ["y"], "layer")
        assert where(exact(model_of([node], held, {"x": ("uint8", (3, 4000))}), given)) == {"layer": "npu"}


def test_matmuls_of_dynamically_quantised_data():
    """Two matmuls of the same data, as onnxruntime's dynamic quantiser generates them."""
    generator = np.random.default_rng(5)
    held = {
        "w1": values(generator, (20, 24), "int8"),
        "w2": values(generator, (20, 30), "int8"),
        "s": np.float32(0.004),
        "zw": np.int8(0),
    }
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "qs", "qz"], "quantise")]
    for name in ("1", "2"):
        nodes += [
            helper.make_node("MatMulInteger", ["q", f"w{name}", "qz", "zw"], [f"i{name}"], f"product{name}"),
            helper.make_node("Cast", [f"i{name}"], [f"f{name}"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["qs", "s"], [f"s{name}"]),
            helper.make_node("Mul", [f"f{name}", f"s{name}"], [f"o{name}"]),
        ]
    nodes.append(helper.make_node("Concat", ["o1", "o2"], ["y"], axis=1))
    model = model_of(nodes, held, {"x": ("float32", (7, 20))}, kind="float32")
    result = exact(model, {"x": generator.standard_normal((7, 20)).astype(np.float32)})
    places = where(result)
    assert (places["product1"], places["product2"], places["quantise"]) == ("npu", "npu", "host")
    assert len(result.results) == 1


def test_a_dynamically_quantised_network(tmp_path):
    from onnxruntime.quantization import QuantType, quantize_dynamic

    generator = np.random.default_rng(6)
    held = {
        "w1": generator.normal(0, 0.2, (18, 3, 3, 3)).astype(np.float32),
        "b1": generator.normal(0, 0.2, 18).astype(np.float32),
        "w2": generator.normal(0, 0.2, (18, 10)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], "convolution", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "w2"], ["y"], "product"),
    ]
    onnx.save(model_of(nodes, held, {"x": ("float32", (1, 3, 12, 12))}, kind="float32"), tmp_path / "float.onnx")
    for kind in (QuantType.QInt8, QuantType.QUInt8):
        quantize_dynamic(tmp_path / "float.onnx", tmp_path / "bytes.onnx", weight_type=kind)
        model = onnx.load(tmp_path / "bytes.onnx")
        result = exact(model, {"x": generator.standard_normal((1, 3, 12, 12)).astype(np.float32)})
        assert sum(row.where == "npu" and row.macs > 0 for row in result.layers) == 2


def test_data_of_layers():
    """Data computed by a layer, with a constant zero point."""
    generator = np.random.default_rng(7)
    held = {"s": np.float32(0.02), "z": np.int8(5), "w": values(generator, (20, 24), "int8")}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Sigmoid", ["d"], ["a"], "function"),
        helper.make_node("QuantizeLinear", ["a", "s", "z"], ["b"]),
        helper.make_node("MatMulInteger", ["b", "w", "z"], ["y"], "layer"),
    ]
    model = model_of(nodes, held, {"x": ("float32", (7, 20))})
    result = exact(model, {"x": generator.standard_normal((7, 20)).astype(np.float32)})
    assert where(result)["layer"] == "npu"
    assert len(result.results) == 1


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("moves", "weights"),
    [
        ([("MaxPool", {"kernel_shape": [2, 2]})], (18, 12, 3, 3)),
        ([("MaxPool", {"kernel_shape": [2, 2]})], (18, 3, 2, 2)),
        ([("Transpose", {"perm": [0, 2, 3, 1]})], (12, 24)),
        ([("Relu", {})], (16, 24)),
    ],
)
@pytest.mark.parametrize("moved", ["data", "zero point", "both"])
def test_data_of_layers_with_a_computed_zero_point(moves, weights, moved):
    """Data, zero point or both are computed on the NPU, which packs them together."""
    generator = np.random.default_rng(9)
    channels = weights[0] if len(weights) == 2 else weights[1]
    dtype = "int8" if moves[0][0] == "Relu" else "uint8"
    shape = (1, 7, 8, 16) if moves[0][0] == "Relu" else (1, channels, 7, 8)
    nodes, data = [], "x"
    if moved != "zero point":
        for n, (kind, attributes) in enumerate(moves):
            nodes.append(helper.make_node(kind, [data], [f"m{n}"], f"move{n}", **attributes))
            data = f"m{n}"
    elif moves[0][0] == "Transpose":
        shape = (1, 7, 8, channels)
    point = "z"
    if moved != "data":
        nodes.append(helper.make_node("Reshape", ["z", "one"], ["p"], "point"))
        point = "p"
    kind = "ConvInteger" if len(weights) == 4 else "MatMulInteger"
    attributes = {"pads": [1, 0, 0, 1]} if len(weights) == 4 else {}
    nodes.append(helper.make_node(kind, [data, "w", point], ["y"], "layer", **attributes))
    held = {"w": values(generator, weights, "int8"), "one": np.array([1])}
    model = model_of(nodes, held, {"x": (dtype, shape), "z": (dtype, ())})
    given = {"x": values(generator, shape, dtype), "z": np.array(77, dtype)}
    assert {*where(exact(model, given)).values()} == {"npu"}


def test_they_need_no_extensions(tmp_path):
    generator = np.random.default_rng(8)
    held = {"w": values(generator, (20, 24), "int8")}
    inputs = {"x": ("uint8", (5, 20)), "z": ("uint8", ())}
    given = {"x": values(generator, (5, 20), "uint8"), "z": np.array(3, np.uint8)}
    node = helper.make_node("MatMulInteger", ["x", "w", "z"], ["y"], "layer")
    model = model_of([node], held, inputs)
    assert where(exact(model, given, lt.load_config("vta"))) == {"layer": "npu"}
    program = lt.from_onnx(model).build(LATHE16)
    program.save(tmp_path / "network")
    again = lt.simulate(lt.NetworkProgram.load(tmp_path / "network"), given)
    assert np.array_equal(again.outputs["y"], lt.simulate(program, given).outputs["y"])


def test_a_zero_point_that_makes_nine_bits_stays_on_the_host():
    inputs = {"x": ("uint8", (5, 20)), "w": ("int8", (20, 24)), "z": ("uint8", ())}
    node = helper.make_node("MatMulInteger", ["x", "w", "z"], ["y"], "layer")
    network = lt.from_onnx(model_of([node], {}, inputs))
    (row,) = lt.simulate(network.build(LATHE16), timing_only=True).layers
    assert row.where == "host"
    check_mentions(row.why, "both of its operands", "zero point", "9 bits")


def test_a_zero_point_of_each_row_leaves_the_product_on_the_npu():
    generator = np.random.default_rng(9)
    held = {"w": values(generator, (20, 24), "int8"), "z": values(generator, (5,), "uint8")}
    given = {"x": values(generator, (5, 20), "uint8")}
    node = helper.make_node("MatMulInteger", ["x", "w", "z"], ["y"], "layer")
    result = lt.simulate(lt.from_onnx(model_of([node], held, {"x": ("uint8", (5, 20))})).build(LATHE16), given)
    assert where(result)["layer"] == "npu"
    expected = (given["x"].astype(np.int32) - held["z"][:, np.newaxis]) @ held["w"].astype(np.int32)
    assert np.array_equal(result.outputs["y"], expected)
