"""8-bit operators without Q/DQ: QLinearConv and the like, and data movement of bytes."""

import numpy as np
import onnx
import pytest
from error_checks import check_mentions
from networks_checking import checked, random_inputs, where, with_onnxruntime
from onnx import TensorProto, helper, numpy_helper

import lathe as lt

MICROSOFT = "com.microsoft"


class Bytes:
    """A model of a QuantizeLinear, 8-bit operators, and a DequantizeLinear."""

    def __init__(self, seed: int, dtype: str = "int8") -> None:
        self.random, self.dtype = np.random.default_rng(seed), dtype
        self.nodes: list[onnx.NodeProto] = []
        self.held: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []

    def constant(self, values) -> str:
        self.held.append(numpy_helper.from_array(np.asarray(values), f"c{len(self.held)}"))
        return self.held[-1].name

    def how(self, scale: float, zero: int) -> list[str]:
        """Scale and zero point, which is 128 larger for uint8."""
        return [self.constant(np.float32(scale)), self.constant(np.dtype(self.dtype).type(zero + 128 * self.unsigned))]

    @property
    def unsigned(self) -> bool:
        return self.dtype == "uint8"

    def node(self, kind: str, inputs, name: str = "layer", domain: str = MICROSOFT, **attributes) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [f"t{len(self.nodes)}"], name, domain=domain, **attributes))
        return self.nodes[-1].output[0]

    def data(self, *shape: int, name: str = "x", scale: float = 0.02, zero: int = 5) -> list[str]:
        """A quantised input, its scale, its zero point."""
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        how = self.how(scale, zero)
        return [self.node("QuantizeLinear", [name, *how], "", ""), *how]

    def weights(self, *shape: int, axis: int | None = 0, dtype: str = "int8") -> list[str]:
        count = () if axis is None else (shape[axis],)
        limits = np.iinfo(dtype)
        values = self.random.integers(limits.min, limits.max + 1, shape).astype(dtype)
        scales = self.random.uniform(0.002, 0.006, count).astype(np.float32)
        zero = np.full(count, 128 if dtype == "uint8" else 0, dtype)
        return [self.constant(each) for each in (values, scales, zero)]

    def bias(self, count: int) -> str:
        return self.constant(self.random.integers(-4000, 4000, count).astype(np.int32))

    def model(self, made: str, how: list[str]) -> onnx.ModelProto:
        self.nodes.append(helper.make_node("DequantizeLinear", [made, *how], ["y"]))
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "bytes", self.inputs, [output], self.held)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        (found,) = with_onnxruntime(model, random_inputs(model))
        model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, found.shape))
        return model


def places(model: onnx.ModelProto, scale: float) -> dict[str, str]:
    found = where(checked(model, units={"y": scale}))
    return {name: place for name, place in found.items() if not name.startswith("t") and name != "y"}


@pytest.mark.sample(5)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("axis", "bias", "attributes"),
    [
        (0, True, {"pads": [1, 1, 1, 1]}),
        (None, False, {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        (None, True, {"pads": [0, 1, 1, 0], "dilations": [2, 1]}),
        (0, True, {"group": 3}),
    ],
)
def test_convolutions(dtype, axis, bias, attributes):
    graph = Bytes(1, dtype)
    data, how = graph.data(1, 12, 7, 8), graph.how(0.1, -3)
    held = graph.weights(18, 12 // attributes.get("group", 1), 3, 3, axis=axis, dtype="int8" if axis == 0 else dtype)
    more = [graph.bias(18)] if bias else []
    made = graph.node("QLinearConv", [*data, *held, *how, *more], domain="", **attributes)
    assert places(graph.model(made, how), 0.1) == {"layer": "npu"}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_matmuls(dtype):
    graph = Bytes(2, dtype)
    data, how = graph.data(3, 5, 20), graph.how(0.1, 4)
    made = graph.node("QLinearMatMul", [*data, *graph.weights(20, 24, axis=1), *how], domain="")
    assert places(graph.model(made, how), 0.1) == {"layer": "npu"}


@pytest.mark.parametrize("transposed", [0, 1])
def test_matmuls_with_a_bias(transposed):
    graph = Bytes(3)
    data, how = graph.data(5, 20), graph.how(0.1, 4)
    held = graph.weights(*((24, 20) if transposed else (20, 24)), axis=0 if transposed else 1)
    made = graph.node("QGemm", [*data, *held, graph.bias(24), *how], transB=transposed, alpha=1.0)
    assert places(graph.model(made, how), 0.1) == {"layer": "npu"}


@pytest.mark.parametrize("kind", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_two_tensors(kind, dtype):
    graph = Bytes(4, dtype)
    data, other, how = graph.data(1, 12, 5, 6), graph.data(1, 12, 5, 6, name="z", scale=0.03), graph.how(0.04, 2)
    assert places(graph.model(graph.node(kind, [*data, *other, *how]), how), 0.04) == {"layer": "npu"}


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("QLinearSigmoid", {}),
        ("QLinearLeakyRelu", {"alpha": 0.2}),
        ("QLinearGlobalAveragePool", {}),
        ("QLinearAveragePool", {"kernel_shape": [2, 3], "strides": [2, 1]}),
    ],
)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_one_tensor(kind, attributes, dtype):
    graph = Bytes(5, dtype)
    data, how = graph.data(1, 12, 5, 6), graph.how(0.01, -30)
    model = graph.model(graph.node(kind, [*data, *how], **attributes), how)
    assert places(model, 0.01) == {"layer": "npu"}


def test_a_concatenation_of_three_scales():
    graph = Bytes(6, "uint8")
    data, other, how = graph.data(1, 12, 5, 6), graph.data(1, 9, 5, 6, name="z", scale=0.03), graph.how(0.04, 2)
    made = graph.node("QLinearConcat", [*how, *data, *other], axis=1)
    assert places(graph.model(made, how), 0.04) == {"layer.requantised": "npu", "layer": "npu"}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_softmax_runs_on_the_host_and_its_consumer_does_not(dtype):
    """The shape after it is that of Softmax; onnxruntime's single node has the attribute `opset`."""
    graph = Bytes(11, dtype)
    data, of_softmax, how = graph.data(2, 12, 16), graph.how(1 / 256, -128), graph.how(0.02, -30)
    softmax = graph.node("QLinearSoftmax", [*data, *of_softmax], "softmax", axis=-1, opset=13)
    product = graph.node("QLinearMatMul", [softmax, *of_softmax, *graph.weights(16, 20, axis=1), *how], domain="")
    model = graph.model(product, how)
    assert places(model, 0.02) == {"softmax": "host", "layer": "npu"}
    reasons = {row.name: row.why for row in checked(model, units={"y": 0.02}).layers}
    assert reasons["softmax"] == "Softmax is computed in float"


def test_channels_last_is_not_expanded():
    graph = Bytes(7)
    data, how = graph.data(1, 5, 6, 12), graph.how(0.01, -30)
    made = graph.node("QLinearGlobalAveragePool", [*data, *how], channels_last=1)
    assert places(graph.model(made, how), 0.01) == {"layer": "host"}


@pytest.mark.parametrize(
    ("kind", "shape", "constants", "attributes"),
    [
        ("MaxPool", (1, 12, 7, 9), (), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("Reshape", (2, 12, 3, 4), (np.array([2, 36, 4]),), {}),
        ("Transpose", (2, 9, 20), (), {"perm": [0, 2, 1]}),
        ("Flatten", (1, 12, 3, 4), (), {}),
        ("Slice", (1, 12, 5, 6), (np.array([2]), np.array([9]), np.array([1])), {}),
        ("Relu", (1, 12, 5, 6), (), {}),
    ],
)
def test_moves_of_bytes(kind, shape, constants, attributes):
    graph = Bytes(8)
    data, *how = graph.data(*shape)
    made = graph.node(kind, [data, *map(graph.constant, constants)], domain="", **attributes)
    assert places(graph.model(made, how), 0) == {"layer": "npu"}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_padding_of_any_value(dtype):
    graph = Bytes(9, dtype)
    data, *how = graph.data(1, 12, 5, 6)
    filling = graph.constant(np.dtype(dtype).type(77))
    made = graph.node("Pad", [data, graph.constant(np.array([0, 0, 1, 2, 0, 0, 0, 3])), filling], domain="")
    assert places(graph.model(made, how), 0) == {"layer": "npu"}


SHAPE = (1, 12, 7, 9)


def of_bytes(dtype, kind, held=(), others=(), shape=SHAPE, opset=17, **attributes):
    """A model of one node on unquantised bytes, with its further inputs."""
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    names = [f"z{n}" for n, _ in enumerate(others)]
    sizes = {"x": shape, **dict(zip(names, others, strict=True))}
    inputs = [helper.make_tensor_value_info(name, number, size) for name, size in sizes.items()]
    constants = [numpy_helper.from_array(np.asarray(each), f"c{n}") for n, each in enumerate(held) if each is not None]
    given = ["x", *names, *("" if each is None else f"c{n}" for n, each in enumerate(held))]
    node = helper.make_node(kind, given, ["y"], "layer", **attributes)
    graph = helper.make_graph([node], "bytes", inputs, [helper.make_tensor_value_info("y", number, None)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    model.graph.output[0].CopyFrom(onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output[0])
    return model


def exactly(model, seed=0):
    """Name, processor and reason of the only layer; asserts that outputs equal onnxruntime's and the reference's."""
    generator = np.random.default_rng(seed)
    inputs = {}
    for each in model.graph.input:
        dtype = helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type)
        shape = [dim.dim_value for dim in each.type.tensor_type.shape.dim]
        inputs[each.name] = generator.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)
    network = lt.from_onnx(model)
    result = lt.simulate(network.build(lt.load_config("lathe16")), inputs)
    (expected,), (made,) = with_onnxruntime(model, inputs), result.outputs.values()
    assert made.dtype == expected.dtype
    assert made.shape == expected.shape
    assert np.array_equal(made, expected)
    assert np.array_equal(made, lt.reference(network, inputs)["y"])
    (row,) = result.layers
    return row.name, row.where, row.why


@pytest.mark.sample(11)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("kind", "held", "others", "attributes"),
    [
        ("MaxPool", (), (), {"kernel_shape": [3, 3], "pads": [1] * 4}),
        ("Transpose", (), (), {"perm": [0, 2, 3, 1]}),
        ("Reshape", (np.array([2, 54, 7]),), (), {}),
        ("Slice", (np.array([1, 2]), np.array([9, 6]), np.array([1, 2])), (), {}),
        ("Pad", (np.array([0, 0, 1, 2, 0, 0, 0, 3]),), (), {}),
        ("Identity", (), (), {}),
        ("Concat", (), (SHAPE,), {"axis": 1}),
        ("Max", (), (SHAPE,), {}),
        ("Min", (), ((9,),), {}),
        ("Resize", (None, np.array([1, 1, 2, 2], np.float32)), (),
         {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
    ],
)  # fmt: skip
def test_unquantised_bytes(dtype, kind, held, others, attributes):
    assert exactly(of_bytes(dtype, kind, held, others, **attributes)) == ("layer", "npu", "")


@pytest.mark.sample(15)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("shape", [(1, 12, 7, 9), (1, 16, 8, 8), (2, 9, 20), (5, 20)])
@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([-1], [-1000], [-1], [-1]),
        ([100], [0], [1], [-2]),
        ([-1, -2], [-100, 0], [-2, -1], [-1, -3]),
        ([-1, 1], [-100, 4], [0, 1], [-1, 2]),
    ],
)
def test_slices_that_run_backwards(dtype, shape, starts, ends, axes, steps):
    held = [np.array(each) for each in (starts, ends, axes, steps)]
    assert exactly(of_bytes(dtype, "Slice", held, shape=shape)) == ("layer", "npu", "")


@pytest.mark.sample(6)
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("shape", [(1, 12, 7, 9), (1, 16, 8, 8), (2, 9, 20), (5, 20)])
@pytest.mark.parametrize("widths", [(1, 2, 2, 3), (-1, 2, 2, -3), (0, -2, 4, -1)])
def test_other_padding_modes_and_negative_pads(mode, shape, widths):
    """Before and after the last two dimensions; cropping by negative pads happens first."""
    none = [0] * (len(shape) - 2)
    held = [np.array([*none, *widths[:2], *none, *widths[2:]])]
    assert exactly(of_bytes("uint8", "Pad", held, shape=shape, opset=19, mode=mode)) == ("layer", "npu", "")


@pytest.mark.parametrize("mode", ["reflect", "edge"])
def test_padding_of_channels(mode):
    held = [np.array([0, 1, 0, 0, 0, 2, 0, 0])]
    assert exactly(of_bytes("int8", "Pad", held, mode=mode)) == ("layer", "npu", "")


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_clips_and_constants_of_bytes(dtype):
    of_dtype = np.dtype(dtype).type
    assert exactly(of_bytes(dtype, "Clip", (of_dtype(5), of_dtype(90)))) == ("layer", "npu", "")
    assert exactly(of_bytes(dtype, "Max", (of_dtype(50),))) == ("layer", "npu", "")
    constant = np.random.default_rng(1).integers(0, 128, (1, 3, 7, 9)).astype(dtype)
    assert exactly(of_bytes(dtype, "Concat", (constant,), axis=1)) == ("layer", "npu", "")
    assert exactly(of_bytes(dtype, "Min", (constant[0, 0],))) == ("layer", "npu", "")


def test_scalar_bytes():
    assert exactly(of_bytes("int8", "Squeeze", shape=(1, 1))) == ("layer", "npu", "")
    assert exactly(of_bytes("uint8", "Max", (), ((3, 4),), shape=())) == ("layer", "npu", "")


def test_a_scalar_is_transposed():
    assert exactly(of_bytes("int8", "Transpose", shape=())) == ("layer", "npu", "")


@pytest.mark.parametrize("mode", ["edge", "wrap"])
def test_padding_that_is_too_wide(mode):
    model = of_bytes("int8", "Pad", [np.array([0, 0, 0, 70_000])], shape=(2, 5), opset=19, mode=mode)
    name, where, why = exactly(model)
    assert (name, where) == ("layer", "host")
    check_mentions(why, 70005, 65536)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_pools_that_onnxruntime_pads_differently(auto_pad):
    """A stride larger than the kernel gives negative padding."""
    model = of_bytes("int8", "MaxPool", kernel_shape=[1, 2], strides=[1, 3], auto_pad=auto_pad)
    name, where, why = exactly(model)
    assert (name, where) == ("layer", "host")
    check_mentions(why, "auto_pad", "stride", "kernel")


@pytest.mark.parametrize(
    ("kind", "others", "why"),
    [
        ("Clip", ((),), ("minimum", "maximum", "constant number")),
        ("Sign", (), ("Sign", "int8")),
        ("Mod", ((9,),), ("Mod", "int8")),
    ],
)
def test_reasons_why_bytes_stay_on_the_host(kind, others, why):
    name, where, reason = exactly(of_bytes("int8", kind, (), others))
    assert (name, where) == ("layer", "host")
    check_mentions(reason, *why)


@pytest.mark.slow
def test_a_network_in_onnxruntimes_operators_runs_as_one_stream(tmp_path):
    """A float network that onnxruntime quantises to operators of its own domain and ONNX's."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    generator = np.random.default_rng(10)
    held, nodes = [], []

    def constant(values):
        held.append(numpy_helper.from_array(np.asarray(values), f"c{len(held)}"))
        return held[-1].name

    def node(kind, *inputs, **attributes):
        nodes.append(helper.make_node(kind, inputs, [f"t{len(nodes)}"], f"{kind}{len(nodes)}", **attributes))
        return nodes[-1].output[0]

    def conv(data, channels, filters, **attributes):
        weights = generator.normal(0, 0.2, (filters, channels, 3, 3)).astype(np.float32)
        bias = generator.normal(0, 0.1, filters).astype(np.float32)
        return node("Conv", data, constant(weights), constant(bias), pads=[1, 1, 1, 1], **attributes)

    first = node("Relu", conv("x", 3, 20))
    second = node("Sigmoid", conv(first, 20, 20))
    both = node("Add", node("Mul", first, second), first)
    smaller = node("MaxPool", both, kernel_shape=[2, 2], strides=[2, 2])
    average = node("AveragePool", both, kernel_shape=[2, 2], strides=[2, 2])
    joined = node("Concat", smaller, node("LeakyRelu", average), axis=1)
    pooled = node("GlobalAveragePool", conv(joined, 40, 24, strides=[2, 2]))
    flat = node("Reshape", pooled, constant(np.array([1, 24])))
    weights = generator.normal(0, 0.2, (10, 24)).astype(np.float32)
    made = node("Gemm", flat, constant(weights), constant(np.zeros(10, np.float32)), transB=1)
    shape = [1, 3, 12, 12]
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    output = helper.make_tensor_value_info(made, TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(nodes, "float", [image], [output], held)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "float.onnx")

    class Pictures(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [{"x": generator.standard_normal(shape).astype(np.float32)} for _ in range(3)]

        def get_next(self):
            return self.left.pop() if self.left else None

    quantize_static(
        tmp_path / "float.onnx", tmp_path / "bytes.onnx", Pictures(), quant_format=QuantFormat.QOperator,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=True,
    )  # fmt: skip
    model = onnx.load(tmp_path / "bytes.onnx")
    assert {node.domain for node in model.graph.node} == {"", MICROSOFT}
    scale = next(each for each in model.graph.initializer if each.name == model.graph.node[-1].input[1])
    result = checked(model, units={made: 2 * float(numpy_helper.to_array(scale))})
    assert {row.why for row in result.layers if row.where == "host"} == {"it converts between float and 8 bits"}
    assert len(result.results) == 1
