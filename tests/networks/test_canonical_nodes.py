"""Canonical forms of nodes: random quantised operators equal NumPy, or onnxruntime, on every machine."""

from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from networks_checking import LATHE16
from onnx import TensorProto, helper, numpy_helper
from seeds import check_each, event, note

import lathe as lt
from lathe.frontend.onnx.canonical_nodes import canonical_nodes
from lathe.frontend.onnx.run_host_nodes import run_on_host

MACHINES = (LATHE16, lt.load_config("vta"))
TYPES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "int32": TensorProto.INT32}


@dataclass
class Case:
    """A model of one operator, made of random values; those in ``given`` are inputs, the others constants."""

    generator: np.random.Generator
    given: dict[str, np.ndarray] = field(default_factory=dict)
    held: dict[str, np.ndarray] = field(default_factory=dict)

    def number(self, low: int, high: int) -> int:
        return int(self.generator.integers(low, high + 1))

    def sizes(self, count: int, low: int, high: int) -> tuple[int, ...]:
        return tuple(self.number(low, high) for _ in range(count))

    def pick(self, *values):
        return values[self.number(0, len(values) - 1)]

    def tensor(self, name: str, shape: tuple[int, ...], dtype: str, *, given: bool = False) -> np.ndarray:
        """Random integers of all values; a third of those that are not ``given`` are inputs, too."""
        limits = np.iinfo(dtype)
        return self.put(name, self.generator.integers(limits.min, limits.max + 1, shape).astype(dtype), given)

    def scale(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        return self.put(name, self.generator.uniform(0.01, 0.03, shape).astype(np.float32))

    def put(self, name: str, values: np.ndarray, given: bool = False) -> np.ndarray:
        (self.given if given or self.number(0, 2) == 0 else self.held)[name] = values
        return values

    def model(self, nodes, dtype: str) -> onnx.ModelProto:
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(values.dtype), values.shape)
            for name, values in self.given.items()
        ]
        outputs = [helper.make_tensor_value_info("y", TYPES[dtype], None)]
        held = [numpy_helper.from_array(np.asarray(values), name) for name, values in self.held.items()]
        graph = helper.make_graph(nodes, "random", inputs, outputs, held)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def check(self, nodes, expected: np.ndarray, tolerance: int) -> None:
        """Every machine gives the expected values; the host CPU also, which computes the model node by node."""
        model = self.model(nodes, str(expected.dtype))
        note(onnx.printer.to_text(model))
        network = lt.from_onnx(model)
        for config in MACHINES:
            result = lt.simulate(network.build(config), self.given)
            event(next((row.where for row in result.layers if row.where == "npu"), "host"))
            self._compare(result.outputs["y"], expected, tolerance)
        self._compare(run_on_host(model.SerializeToString(), self.given, ("y",))["y"], expected, tolerance)

    @staticmethod
    def _compare(made: np.ndarray, expected: np.ndarray, tolerance: int) -> None:
        assert (made.dtype, made.shape) == (expected.dtype, expected.shape)
        assert np.abs(made.astype(np.int64) - expected.astype(np.int64)).max(initial=0) <= tolerance


def shape_of_zeros(case: Case, shape: tuple[int, ...], *, rows: bool) -> tuple[int, ...]:
    """One zero point, one for each row or column, or for each of a batch's, in the forms of ONNX's specification."""
    each = (*shape[:-2], shape[-2], 1) if rows else (*shape[:-2], 1, shape[-1])
    short = (shape[-2] if rows else shape[-1],)
    return case.pick((), (1,), each, short if len(shape) == 2 else each)


def of_rows(values: np.ndarray) -> np.ndarray:
    return values[:, np.newaxis] if values.ndim == 1 and values.size > 1 else values


def matmul_shapes(case: Case) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Of both operands and the result; often with as many rows as columns, which hides a wrong broadcast."""
    rows, depth, columns = case.sizes(3, 1, 6)
    depth = case.pick(rows, depth)
    batch = case.pick((), (case.number(1, 3),))
    return (*batch, rows, depth), (*case.pick((), batch), depth, columns), (*batch, rows, columns)


def check_matmul_integer(seed: int) -> None:
    case = Case(np.random.default_rng(seed))
    a, b, _ = matmul_shapes(case)
    of_a, of_b = case.pick("uint8", "int8"), case.pick("uint8", "int8")
    first, second = case.tensor("a", a, of_a, given=True), case.tensor("b", b, of_b)
    zero = case.tensor("za", shape_of_zeros(case, a, rows=True), of_a)
    other = case.tensor("zb", shape_of_zeros(case, b, rows=False), of_b)
    expected = (first.astype(np.int32) - of_rows(zero)) @ (second.astype(np.int32) - other)
    case.check([helper.make_node("MatMulInteger", ["a", "b", "za", "zb"], ["y"])], expected.astype(np.int32), 0)


def check_qlinear_matmul(seed: int) -> None:
    case = Case(np.random.default_rng(seed))
    a, b, y = matmul_shapes(case)
    of_a, of_b = case.pick("uint8", "int8"), case.pick("uint8", "int8")
    shapes = [shape_of_zeros(case, shape, rows=shape is not b) for shape in (a, b, y)]
    first, second = case.tensor("a", a, of_a, given=True), case.tensor("b", b, of_b)
    scales = [case.scale(name, shape) for name, shape in zip(("sa", "sb", "sy"), shapes, strict=True)]
    zeros = [case.tensor(name, shape, dtype) for name, shape, dtype in
             zip(("za", "zb", "zy"), shapes, (of_a, of_b, of_a), strict=True)]  # fmt: skip
    sums = (first.astype(np.int64) - of_rows(zeros[0])) @ (second.astype(np.int64) - zeros[1])
    scaled = np.rint(sums * (of_rows(scales[0]).astype(np.float64) * scales[1] / of_rows(scales[2])))
    limits = np.iinfo(of_a)
    expected = np.clip(scaled + of_rows(zeros[2]), limits.min, limits.max).astype(of_a)
    case.check([helper.make_node("QLinearMatMul", ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"], ["y"])], expected, 1)


def check_conv_integer(seed: int) -> None:
    case = Case(np.random.default_rng(seed))
    rank, groups = case.number(1, 3), case.number(1, 2)
    channels, filters = case.number(1, 2), case.number(1, 3)
    sizes, kernel = case.sizes(rank, 4, 6), case.sizes(rank, 1, 3)
    of_x, of_w = case.pick("uint8", "int8"), case.pick("uint8", "int8")
    data = case.tensor("x", (2, groups * channels, *sizes), of_x, given=True)
    weights = case.tensor("w", (groups * filters, channels, *kernel), of_w)
    zero, other = case.tensor("zx", (), of_x), case.tensor("zw", case.pick((), (groups * filters,)), of_w)
    taps = np.lib.stride_tricks.sliding_window_view(data.astype(np.int32) - zero, kernel, tuple(range(2, 2 + rank)))
    taps = taps.reshape(2, groups, channels, *taps.shape[2 : 2 + rank], -1)
    centred = weights.astype(np.int32) - (other.reshape(-1, *(1,) * (rank + 1)) if other.ndim else other)
    sums = np.einsum("ngc...t,gfct->ngf...", taps, centred.reshape(groups, filters, channels, -1))
    expected = sums.reshape(2, groups * filters, *sums.shape[3:]).astype(np.int32)
    case.check([helper.make_node("ConvInteger", ["x", "w", "zx", "zw"], ["y"], group=groups)], expected, 0)


@pytest.mark.parametrize("check", [check_matmul_integer, check_qlinear_matmul, check_conv_integer])
@pytest.mark.seeds(4, slow=120)
def test_zero_points_of_rows_columns_and_filters(check, seeds):
    check_each(seeds, check)


def check_automatic_padding(seed: int) -> None:
    """The model on each machine; onnxruntime computes the expected values, with explicit pads where it refuses."""
    case = Case(np.random.default_rng(seed))
    kind, rank = case.pick("Conv", "ConvTranspose", "QLinearConv", "ConvInteger"), case.number(1, 2)
    channels, filters = case.number(1, 4), case.number(1, 4)
    most_size, most_stride = case.pick((9, 3), (30, 10))
    sizes, kernel, strides = case.sizes(rank, 2, most_size), case.sizes(rank, 1, 3), case.sizes(rank, 1, most_stride)
    dilations = case.pick((1,) * rank, case.sizes(rank, 1, 2))
    attributes = {"auto_pad": case.pick("SAME_UPPER", "SAME_LOWER", "VALID"), "strides": strides,
                  "dilations": dilations}  # fmt: skip
    extents = [(taps - 1) * apart + 1 for taps, apart in zip(kernel, dilations, strict=True)]
    if attributes["auto_pad"] == "VALID" and any(map(int.__lt__, sizes, extents)):
        event("no window")
        return
    shape = (filters, channels, *kernel)
    if kind == "ConvTranspose":
        shape = (channels, filters, *kernel)
        attributes["output_padding"] = [case.number(0, each - 1) for each in strides]
    scales = {"sx": 0.05, "sw": 0.02, "sy": 0.3}
    case.held.update({name: np.array(value, np.float32) for name, value in scales.items()})
    case.held.update(zx=np.array(120, np.uint8), zw=np.array(0, np.int8), zy=np.array(100, np.uint8))
    limits = np.iinfo(np.int8)
    case.held["w"] = case.generator.integers(limits.min, limits.max + 1, shape).astype(np.int8)
    case.tensor("x", (1, channels, *sizes), "uint8", given=True)
    if kind == "ConvInteger":
        nodes = [helper.make_node(kind, ["x", "w", "zx"], ["y"], **attributes)]
    elif kind == "QLinearConv":
        nodes = [helper.make_node(kind, ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"], ["y"], **attributes)]
    else:
        nodes = [
            helper.make_node("DequantizeLinear", ["x", "sx", "zx"], ["data"]),
            helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["weights"]),
            helper.make_node(kind, ["data", "weights"], ["made"], **attributes),
            helper.make_node("QuantizeLinear", ["made", "sy", "zy"], ["y"]),
        ]
    model = case.model(nodes, "int32" if kind == "ConvInteger" else "uint8")
    expected = run_on_host(model.SerializeToString(), case.given, ("y",))["y"]
    case.check(nodes, expected, 0 if kind == "ConvInteger" else 1)


@pytest.mark.seeds(12, slow=240)
def test_automatic_padding_means_the_same_on_every_machine(seeds):
    assert check_each(seeds, check_automatic_padding)["npu"] > 0


@pytest.mark.parametrize(
    ("of", "pads"), [("SAME_UPPER", [1, 1, 2, 1]), ("SAME_LOWER", [2, 1, 1, 1]), ("VALID", [0] * 4)]
)
def test_pads_are_explicit(of, pads):
    node = helper.make_node("Conv", ["x", "w"], ["y"], auto_pad=of, strides=[2, 1], dilations=[2, 1])
    types = {"x": np.zeros((1, 3, 8, 8), np.float32), "w": np.zeros((4, 3, 3, 3), np.float32)}
    (made,) = canonical_nodes(node, 17, types, str)
    attributes = {each.name: helper.get_attribute_value(each) for each in made.attribute}
    assert attributes == {"strides": [2, 1], "dilations": [2, 1], "pads": pads}


def test_transposed_convolutions_have_the_output_size_of_onnxruntime():
    """SAME with output padding is input x stride, also where shape inference says more."""
    generator = np.random.default_rng(3)
    case = Case(generator)
    case.held.update(s=np.array(0.05, np.float32), z=np.array(0, np.int8))
    case.held["w"] = generator.integers(-128, 128, (2, 1, 3, 3)).astype(np.int8)
    case.tensor("x", (1, 2, 3, 3), "int8", given=True)
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["data"]),
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["weights"]),
        helper.make_node("ConvTranspose", ["data", "weights"], ["made"], auto_pad="SAME_UPPER", strides=[2, 2],
                         output_padding=[1, 1]),
        helper.make_node("QuantizeLinear", ["made", "s", "z"], ["y"]),
    ]  # fmt: skip
    result = lt.simulate(lt.from_onnx(case.model(nodes, "int8")).build(LATHE16), case.given)
    assert result.outputs["y"].shape == (1, 1, 6, 6)


@pytest.mark.parametrize("missing", range(8))
def test_a_node_without_an_input_that_it_requires_is_left(missing):
    names = ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"]
    types = {name: np.zeros((3, 3) if name in "ab" else (3,), np.uint8) for name in names}
    names[missing] = ""
    assert canonical_nodes(helper.make_node("QLinearMatMul", names, ["y"]), 17, types, str) is None
