"""Windows of images as layers: the greatest value of each, and the average."""

from collections.abc import Callable, Mapping

from lathe.frontend.onnx.groups import Group, Operands
from lathe.frontend.onnx.layers import AveragePool, Layer, MaxPool
from lathe.frontend.onnx.moves import requantised
from lathe.frontend.onnx.reading import attributes_of
from lathe.frontend.onnx.unfit import Unfit
from lathe.frontend.onnx.windows import pads_of, wide_enough


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
        pads = wide_enough(of.shape(node.input[0])[2:], made, kernel, strides, pads)
    if group.relu:
        raise Unfit("its result is rectified")
    data = requantised(of, data, how, group.how)
    return MaxPool(
        group.name, (data,), group.output, (group.how,), group.how, kernel, strides, pads, nodes=group.numbers
    )


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


POOLS: Mapping[str, Callable[[Operands, Group], Layer]] = {
    "AveragePool": _average,
    "GlobalAveragePool": _global_average,
    "MaxPool": _max_pool,
    "ReduceMean": _mean,
}
