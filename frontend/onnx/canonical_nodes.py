"""Canonical forms of nodes that libraries interpret differently, or that onnxruntime refuses.

    auto_pad of convolutions   explicit pads as onnxruntime computes them
    MatMulInteger              a zero point for each row of A: the sums minus zero point times column sums of B
    QLinearMatMul              a scale or zero point for each row or batch: the sums, scaled and rounded in float64
    ConvInteger                a zero point for each filter: the sums minus zero point times window sums of X

ONNX's reference evaluator broadcasts zero points of rows along columns, and computes ``auto_pad`` from other
dimensions. The importer rewrites a model to these forms, and the host worker a node that onnxruntime refuses. This
file imports nothing of Lathe, since the host worker loads it.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from math import prod
from typing import Any, Protocol


class Type(Protocol):
    """Of a tensor, such as an array."""

    @property
    def dtype(self) -> Any: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


Types = Mapping[str, Type]
FIRST_OPSET = 13
"""The first opset whose ReduceSum and Unsqueeze have axes as inputs."""
REQUIRED = {
    "Conv": 2, "ConvTranspose": 2, "ConvInteger": 2, "QLinearConv": 4, "MatMulInteger": 2, "QLinearMatMul": 8
}  # fmt: skip
"""The operators with canonical forms, and how many of their first inputs these use."""
CONVOLUTIONS = {"Conv": (0, 1), "ConvTranspose": (0, 1), "ConvInteger": (0, 1), "QLinearConv": (0, 3)}
"""Numbers of the inputs that are the data and the weights of each convolution."""


def canonical_nodes(node: Any, opset: int, types: Types, fresh: Callable[[str], str]) -> list[Any] | None:
    """The nodes that replace a node; None if it is canonical, or the type of an input unknown.

    ``fresh`` makes a new tensor name from a hint.
    """
    if node.domain not in ("", "ai.onnx") or opset < FIRST_OPSET:
        return None
    names = [*node.input, *[""] * 8]
    if not all(names[: REQUIRED.get(node.op_type, 0)]):
        return None
    if any(name and name not in types for name in node.input):
        return None
    if node.op_type == "MatMulInteger":
        return _matmul_integer(node, names, types, fresh)
    if node.op_type == "QLinearMatMul":
        return _qlinear_matmul(node, names, types, fresh)
    if node.op_type in CONVOLUTIONS:
        return _with_explicit_pads(node, types) or _conv_integer(node, names, types, fresh)
    return None


def same_pads(size: int, extent: int, stride: int, *, lower: bool) -> tuple[int, int]:
    """Padding of a convolution for ceil(size / stride) windows of ``extent``; negative where windows are sparse."""
    total = (-(-size // stride) - 1) * stride + extent - size
    return (total - total // 2, total // 2) if lower else (total // 2, total - total // 2)


def transposed_same_pads(size: int, extent: int, stride: int, more: int, *, lower: bool) -> tuple[int, int]:
    """Cropping of a transposed convolution to size x stride elements, as onnxruntime does; ``more``: output padding."""
    total = max(stride * (size - 1) + more + extent - size * stride, 0)
    return (total - total // 2, total // 2) if lower else (total // 2, total - total // 2)


def _with_explicit_pads(node: Any, types: Types) -> list[Any] | None:
    """A convolution with ``pads`` instead of ``auto_pad``; None if that would crop the input (onnxruntime decides)."""
    given = {each.name: import_module("onnx.helper").get_attribute_value(each) for each in node.attribute}
    auto_pad = given.get("auto_pad", b"NOTSET").decode(errors="replace")
    data, weights = (types[node.input[index]].shape for index in CONVOLUTIONS[node.op_type])
    rank = len(data) - 2
    kernel = given.get("kernel_shape", weights[2:])
    lists = [given.get(name, [default] * rank)
             for name, default in (("strides", 1), ("dilations", 1), ("output_padding", 0))]  # fmt: skip
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER", "VALID") or rank < 1 or "output_shape" in given:
        return None
    if len(kernel) != rank or any(len(each) != rank for each in lists) or min(lists[0]) < 1:
        return None
    pads = [(0, 0)] * rank
    if auto_pad != "VALID":
        lower = auto_pad == "SAME_LOWER"
        pads = [
            transposed_same_pads(size, (taps - 1) * apart + 1, stride, more, lower=lower)
            if node.op_type == "ConvTranspose"
            else same_pads(size, (taps - 1) * apart + 1, stride, lower=lower)
            for size, taps, stride, apart, more in zip(data[2:], kernel, *lists, strict=True)
        ]
    if min(map(min, pads)) < 0:
        return None
    made = type(node).FromString(node.SerializeToString())
    del made.attribute[:]
    made.attribute.extend(each for each in node.attribute if each.name not in ("auto_pad", "pads"))
    before, after = zip(*pads, strict=True)
    made.attribute.append(import_module("onnx.helper").make_attribute("pads", [*before, *after]))
    return [made]


class _Builder:
    """Makes the nodes of a form; tensors get new names, the result that of the node."""

    def __init__(self, node: Any, fresh: Callable[[str], str]) -> None:
        self.node, self.fresh = node, fresh
        self.nodes: list[Any] = []

    def __call__(self, kind: str, *inputs: str, **attributes: Any) -> str:
        made = self.fresh(f"{self.node.name or self.node.output[0]}/{kind.lower()}")
        self.nodes.append(import_module("onnx.helper").make_node(kind, list(inputs), [made], made, **attributes))
        return made

    def constant(self, values: Any) -> str:
        helper: Any = import_module("onnx.numpy_helper")
        return self("Constant", value=helper.from_array(import_module("numpy").asarray(values)))

    def int32(self, name: str) -> str:
        return self("Cast", name, to=import_module("onnx").TensorProto.INT32)

    def double(self, name: str) -> str:
        return self("Cast", name, to=import_module("onnx").TensorProto.DOUBLE)

    def per_row(self, name: str, values: Type) -> str:
        """Values for each row, of the type of ``values``, with a dimension for the columns."""
        return self("Unsqueeze", name, self.constant([-1])) if len(values.shape) == 1 and _several(values) else name

    def ends_as(self, name: str) -> list[Any]:
        """All nodes; the last, which makes ``name``, makes the node's output instead. Its name goes to the product."""
        assert self.nodes[-1].output[0] == name
        self.nodes[-1].output[0] = self.node.output[0]
        product = next((each for each in self.nodes if each.op_type == self.node.op_type), self.nodes[-1])
        product.name = self.node.name
        return self.nodes


def _several(values: Type) -> bool:
    return prod(values.shape) > 1


def _sums(add: _Builder, operands: Sequence[str], zeros: Sequence[str], types: Types) -> str:
    """int32 sums of (A - zero) (B - zero). Zero points of rows of A are subtracted after the product with B."""
    (a, b), (zero_a, zero_b) = operands, zeros
    rows = bool(zero_a) and _several(types[zero_a])
    if zero_b and _several(types[zero_b]) and len(types[b].shape) != 2:  # onnxruntime's MatMulInteger accepts few forms
        second, first = add("Sub", add.int32(b), add.int32(zero_b)), add.int32(a)
        if zero_a:
            first = add("Sub", first, add.per_row(add.int32(zero_a), types[zero_a]))
        return add("MatMul", first, second)
    inputs = [a, b, "" if rows else zero_a, zero_b]
    while not inputs[-1]:
        inputs.pop()
    sums = add("MatMulInteger", *inputs)
    if not rows:
        return sums
    second = add("Sub", add.int32(b), add.int32(zero_b)) if zero_b else add.int32(b)
    columns = add("ReduceSum", second, add.constant([-2]), keepdims=1)
    return add("Sub", sums, add("Mul", add.per_row(add.int32(zero_a), types[zero_a]), columns))


def _matmul_integer(node: Any, names: Sequence[str], types: Types, fresh: Callable[[str], str]) -> list[Any] | None:
    zero = names[2]
    if not zero or not _several(types[zero]) or min(len(types[name].shape) for name in names[:2]) < 2:
        return None
    add = _Builder(node, fresh)
    return add.ends_as(_sums(add, names[:2], names[2:4], types))


def _qlinear_matmul(node: Any, names: Sequence[str], types: Types, fresh: Callable[[str], str]) -> list[Any] | None:
    a, scale_a, zero_a, b, scale_b, zero_b, scale_y, zero_y = names[:8]
    several = {name for name in (scale_a, zero_a, scale_y, zero_y) if _several(types[name])}
    if len(types[b].shape) != 2:
        several |= {name for name in (scale_b, zero_b) if _several(types[name])}
    if not several or min(len(types[name].shape) for name in (a, b)) < 2:
        return None
    add = _Builder(node, fresh)
    sums = add.double(_sums(add, (a, b), (zero_a, zero_b), types))
    scale = add("Mul", add.per_row(scale_a, types[scale_a]), scale_b)
    scale = add.double(add("Div", scale, add.per_row(scale_y, types[scale_y])))
    zero = add.double(add.per_row(zero_y, types[zero_y]))
    values = add("Add", add("Round", add("Mul", sums, scale)), zero)
    limits = import_module("numpy").iinfo(str(types[zero_y].dtype))
    clipped = add("Clip", values, add.constant(float(limits.min)), add.constant(float(limits.max)))
    code = import_module("onnx.helper").np_dtype_to_tensor_dtype(limits.dtype)
    return add.ends_as(add("Cast", clipped, to=code))


def _conv_integer(node: Any, names: Sequence[str], types: Types, fresh: Callable[[str], str]) -> list[Any] | None:
    data, weights, zero_x, zero_w = names[:4]
    if node.op_type != "ConvInteger" or not zero_w or not _several(types[zero_w]):
        return None
    add = _Builder(node, fresh)
    attributes = {each.name: import_module("onnx.helper").get_attribute_value(each) for each in node.attribute}
    ones = add.constant(import_module("numpy").ones(types[weights].shape, "int8"))
    sums, windows = (
        add("ConvInteger", data, each, *([zero_x] if zero_x else []), **attributes) for each in (weights, ones)
    )
    spatial = add.constant([*range(1, len(types[data].shape) - 1)])
    return add.ends_as(add("Sub", sums, add("Mul", windows, add("Unsqueeze", add.int32(zero_w), spatial))))
