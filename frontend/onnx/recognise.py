"""Nodes between DequantizeLinear and QuantizeLinear, each such group as one layer of whole numbers.

A layer is found from its QuantizeLinear upwards: activations, one operator, and its operands, which are dequantised.
What is not found stays with the host, and ``reasons`` says why.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.functions import function_above, tabulated
from lathe.frontend.onnx.groups import Group, Operands, Recognised
from lathe.frontend.onnx.layers import (
    AveragePool,
    Conv,
    ConvTranspose,
    Layer,
    Lookup,
    MaxPool,
    Pair,
    Product,
    Sum,
    TensorProduct,
    Times,
)
from lathe.frontend.onnx.moves import MOVES, requantised
from lathe.frontend.onnx.reading import Model, attributes_of
from lathe.frontend.onnx.unfit import Unfit


def recognise(model: Model) -> Recognised:
    """The layers of a model. Raises ModelError for scales that are no positive numbers."""
    return _Recogniser(model).run()


class _Recogniser(Operands):
    def run(self) -> Recognised:
        for number, node in enumerate(self.model.nodes):
            if node.op_type != "QuantizeLinear" or node.domain not in ("", "ai.onnx"):
                continue
            try:
                layer = self._layer(number, node)
            except Unfit as reason:
                made = self.values.producer.get(node.input[0])
                self.found.reasons[number if made is None else made] = str(reason)
            else:
                self.found.layers[layer.output] = layer
        return self.found

    def _layer(self, number: int, node: Any) -> Layer:
        try:
            group = self._group(number, node)
            make = _MAKERS.get(group.core.op_type) if group.core.domain in ("", "ai.onnx") else None
            if make is None:
                raise Unfit(f"{group.core.op_type} is computed in float")
            layer = make(self, group)
            if len(layer.inputs) < 2:
                return layer
            return self._function(number, node) or layer
        except Unfit:
            function = self._function(number, node)
            if function is None:
                raise
            return function

    def _function(self, number: int, node: Any) -> Layer | None:
        """A function of one tensor, whose last node brings it to 8 bits; one of no more than two scales is none."""
        how = self.values.quantisation(node)
        found = function_above(self.values, number, self.found.layers)
        if how is None or found is None:
            return None
        source, numbers = found
        readers = [self.model.nodes[each] for each in numbers if source in self.model.nodes[each].input]
        of_input = self.values.quantisation(readers[0])
        table = None if of_input is None else tabulated(self.model, source, numbers, node.output[0])
        if of_input is None or table is None:
            return None
        name = next((self.model.nodes[each].name for each in numbers[1:-1] or numbers), "") or node.output[0]
        return Lookup(name, (source,), node.output[0], (of_input,), how, table, nodes=numbers)

    def _group(self, number: int, node: Any) -> Group:
        how = self.values.quantisation(node)
        if how is None:
            raise Unfit("its result has no single constant scale and zero point of 8 bits")
        numbers, relu, name = [number], False, node.input[0]
        while True:
            found = self.values.node_of(name)
            if found is None:
                raise Unfit("it brings float values to 8 bits")
            above, core = found
            numbers.append(above)
            if core.op_type != "Relu":
                return Group(node, how, core, name, tuple(numbers), relu)
            relu, name = True, core.input[0]


def _conv(of: Operands, group: Group) -> Layer:
    node = group.core
    data, how = of.operand(node.input[0])
    weights = of.values.constant_behind(node.input[1])
    if weights is None:
        raise Unfit("its weights are no constants of 8 bits")
    if weights.values.ndim != 4:
        raise Unfit(f"its weights have {weights.values.ndim} dimensions, not 4")
    scale = weights.scale_along(0)
    if scale is None:
        raise Unfit("its weights have scales along another dimension than that of filters")
    attributes = attributes_of(node)
    kernel: Pair = (weights.values.shape[2], weights.values.shape[3])
    strides, dilations = (tuple(attributes.get(name, (1, 1))) for name in ("strides", "dilations"))
    pads = pads_of(attributes, of.shape(node.input[0])[2:], kernel, strides, dilations)
    unit = how.scale * scale
    bias = of.bias(node.input[2], unit) if len(node.input) > 2 and node.input[2] else np.zeros(len(scale), np.int64)
    return Conv(
        group.name, (data,), group.output, (how,), group.how, _weights(weights.values), scale, bias,
        strides, pads, dilations, attributes.get("group", 1), group.relu, nodes=group.numbers,
    )  # fmt: skip


def _weights(values: NDArray[Any]) -> NDArray[Any]:
    if values.min(initial=0) < -128 or values.max(initial=0) > 127:
        raise Unfit("its weights less their zero point do not fit int8")
    return values.astype(np.int8)


def pads_of(
    attributes: Mapping[str, Any], sizes: tuple[int, ...], kernel: Pair, strides: Pair, dilations: Pair
) -> tuple[int, int, int, int]:
    """Top, left, bottom and right, by ``pads`` or ``auto_pad``."""
    automatic = attributes.get("auto_pad", "NOTSET")
    if automatic == "NOTSET":
        top, left, bottom, right = attributes.get("pads", (0, 0, 0, 0))
        return top, left, bottom, right
    if automatic == "VALID":
        return 0, 0, 0, 0
    before, behind = [], []
    for size, taps, step, apart in zip(sizes, kernel, strides, dilations, strict=True):
        missing = max((-(-size // step) - 1) * step + (taps - 1) * apart + 1 - size, 0)
        less, more = missing // 2, missing - missing // 2
        before.append(less if automatic == "SAME_UPPER" else more)
        behind.append(more if automatic == "SAME_UPPER" else less)
    return before[0], before[1], behind[0], behind[1]


def _gemm(of: Operands, group: Group) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    if attributes.get("transA", 0) or attributes.get("alpha", 1.0) != 1.0 or attributes.get("beta", 1.0) != 1.0:
        raise Unfit("it scales or transposes its data")
    return _product(of, group, bool(attributes.get("transB", 0)), node.input[2] if len(node.input) > 2 else "")


def _matmul(of: Operands, group: Group) -> Layer:
    if of.values.bytes_behind(group.core.input[1]) is not None:
        return _tensor_product(of, group)
    return _product(of, group, transposed=False, bias="")


def _product(of: Operands, group: Group, transposed: bool, bias: str) -> Layer:
    node = group.core
    data, how = of.operand(node.input[0])
    weights = of.values.constant_behind(node.input[1])
    if weights is None or weights.values.ndim != 2:
        raise Unfit("its second operand is no constant matrix of 8 bits")
    scale = weights.scale_along(0 if transposed else 1)
    if scale is None:
        raise Unfit("its weights have scales along the dimension that is summed over")
    values = _weights(weights.values if transposed else weights.values.T)
    unit = how.scale * scale
    biases = of.bias(bias, unit) if bias else np.zeros(len(scale), np.int64)
    return Product(
        group.name, (data,), group.output, (how,), group.how, values, scale, biases, group.relu, nodes=group.numbers
    )


def _add(of: Operands, group: Group) -> Layer:
    (a, of_a), (b, of_b) = (of.operand(name) for name in group.core.input)
    if of.shape(a) != of.shape(b):
        raise Unfit("its operands have different shapes")
    return Sum(group.name, (a, b), group.output, (of_a, of_b), group.how, group.relu, nodes=group.numbers)


def _max_pool(of: Operands, group: Group) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    data, how = of.operand(node.input[0])
    kernel = tuple(attributes["kernel_shape"])
    if len(kernel) != 2 or tuple(attributes.get("dilations", (1, 1))) != (1, 1) or len(node.output) > 1:
        raise Unfit("its windows are not plain ones of an image")
    strides = tuple(attributes.get("strides", (1, 1)))
    pads = pads_of(attributes, of.shape(node.input[0])[2:], kernel, strides, (1, 1))
    made = of.shape(node.output[0])[2:]
    if attributes.get("ceil_mode", 0):
        pads = _wide_enough(of.shape(node.input[0])[2:], made, kernel, strides, pads)
    if group.relu:
        raise Unfit("its result is rectified")
    data = requantised(of, data, how, group.how)
    return MaxPool(
        group.name, (data,), group.output, (group.how,), group.how, kernel, strides, pads, nodes=group.numbers
    )


def _wide_enough(
    sizes: tuple[int, ...], made: tuple[int, ...], kernel: Pair, strides: Pair, pads: tuple[int, int, int, int]
) -> tuple[int, int, int, int]:
    """Borders behind an image so wide that windows which begin inside are whole."""
    behind = [
        max((count - 1) * step + taps - size - before, least)
        for size, count, taps, step, before, least in zip(sizes, made, kernel, strides, pads[:2], pads[2:], strict=True)
    ]
    return pads[0], pads[1], behind[0], behind[1]


def _global_average(of: Operands, group: Group) -> Layer:
    data, how = of.operand(group.core.input[0])
    size = of.shape(data)[2:]
    if len(size) != 2:
        raise Unfit("it is no average of an image")
    return AveragePool(
        group.name, (data,), group.output, (how,), group.how, size, (1, 1), relu=group.relu, nodes=group.numbers
    )


def _average(of: Operands, group: Group) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    data, how = of.operand(node.input[0])
    kernel, strides = tuple(attributes["kernel_shape"]), tuple(attributes.get("strides", (1, 1)))
    if len(kernel) != 2 or tuple(attributes.get("dilations", (1, 1))) != (1, 1) or attributes.get("ceil_mode", 0):
        raise Unfit("its windows are not plain ones of an image")
    pads = pads_of(attributes, of.shape(node.input[0])[2:], kernel, strides, (1, 1))
    if any(pads) and not attributes.get("count_include_pad", 0):
        raise Unfit("its windows at the border have fewer values")
    return AveragePool(
        group.name, (data,), group.output, (how,), group.how, kernel, strides, pads, group.relu, nodes=group.numbers
    )


def _mean(of: Operands, group: Group) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    data, how = of.operand(node.input[0])
    shape = of.shape(data)
    axes = attributes.get("axes")
    if axes is None and len(node.input) > 1:
        held = of.model.constant(node.input[1])
        axes = None if held is None else held.tolist()
    if len(shape) != 4 or axes is None or sorted(axis % 4 for axis in axes) != [2, 3]:
        raise Unfit("it is no average of an image")
    if not attributes.get("keepdims", 1):
        raise Unfit("its result has other dimensions than an image")
    return AveragePool(
        group.name, (data,), group.output, (how,), group.how, shape[2:], (1, 1), relu=group.relu, nodes=group.numbers
    )


def _mul(of: Operands, group: Group) -> Layer:
    (a, of_a), (b, of_b) = (of.operand(name) for name in group.core.input)
    made = of.shape(group.output)
    if of.shape(a) != made:
        a, of_a, b, of_b = b, of_b, a, of_a
    if of.shape(a) != made or any(n not in (1, m) for n, m in zip(of.shape(b), made, strict=False)):
        raise Unfit("both of its operands are repeated along a dimension")
    if len(of.shape(b)) != len(made):
        raise Unfit("its operands have different numbers of dimensions")
    return Times(group.name, (a, b), group.output, (of_a, of_b), group.how, group.relu, nodes=group.numbers)


def _conv_transpose(of: Operands, group: Group) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    data, how = of.operand(node.input[0])
    weights = of.values.constant_behind(node.input[1])
    if weights is None or weights.values.ndim != 4:
        raise Unfit("its weights are no constants of 8 bits with 4 dimensions")
    plain = tuple(attributes.get("dilations", (1, 1))) == (1, 1) and attributes.get("group", 1) == 1
    scale = weights.scale_along(1)
    if not plain or scale is None:
        raise Unfit("its windows are spread or in groups, or its weights have scales along their first dimension")
    strides: Pair = tuple(attributes.get("strides", (1, 1)))
    kernel = weights.values.shape[2:]
    sizes, made = of.shape(data)[2:], of.shape(group.output)[2:]
    before = _left_out(attributes, sizes, made, kernel, strides)
    behind = [
        (size - 1) * step + taps - first - count
        for size, step, taps, first, count in zip(sizes, strides, kernel, before, made, strict=True)
    ]
    unit = how.scale * scale
    bias = of.bias(node.input[2], unit) if len(node.input) > 2 and node.input[2] else np.zeros(len(scale), np.int64)
    return ConvTranspose(
        group.name, (data,), group.output, (how,), group.how, _weights(weights.values), scale, bias, strides,
        (*before, *behind), group.relu, nodes=group.numbers,
    )  # fmt: skip


def _left_out(
    attributes: Mapping[str, Any], sizes: tuple[int, ...], made: tuple[int, ...], kernel: tuple[int, ...], strides: Pair
) -> Pair:
    """What a transposed convolution leaves out before its first row and column."""
    automatic = attributes.get("auto_pad", "NOTSET")
    if automatic in ("NOTSET", "VALID") and "output_shape" not in attributes:
        first = attributes.get("pads", (0, 0, 0, 0))[:2] if automatic == "NOTSET" else (0, 0)
        return first[0], first[1]
    more = attributes.get("output_padding", (0, 0))
    missing = [
        step * (size - 1) + wide + taps - count
        for step, size, wide, taps, count in zip(strides, sizes, more, kernel, made, strict=True)
    ]
    top, left = (each // 2 if automatic == "SAME_UPPER" else each - each // 2 for each in missing)
    return top, left


def _tensor_product(of: Operands, group: Group) -> Layer:
    (a, of_a), (b, of_b) = (of.operand(name) for name in group.core.input)
    if of_a.own_zero or of_b.own_zero:
        raise Unfit("both of its operands are computed, and have zero points")
    if of.shape(a)[:-2] != of.shape(b)[:-2] or len(of.shape(a)) < 2:
        raise Unfit("its operands are repeated")
    return TensorProduct(group.name, (a, b), group.output, (of_a, of_b), group.how, group.relu, nodes=group.numbers)


_MAKERS: dict[str, Callable[[Operands, Group], Layer]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Add": _add,
    "MaxPool": _max_pool,
    "GlobalAveragePool": _global_average,
    "AveragePool": _average,
    "ReduceMean": _mean,
    "Mul": _mul,
    **MOVES,
}
