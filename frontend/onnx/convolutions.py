"""Convolutions as layers, and transposed ones."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.qdq_groups import NodeGroup, Operands, greatest_sum, weights_of
from lathe.frontend.onnx.qdq_values import Constant
from lathe.frontend.onnx.quant_graph import Conv, ConvTranspose, Layer
from lathe.frontend.onnx.reading import attributes_of
from lathe.frontend.onnx.unsupported import NotOffloadable
from lathe.frontend.onnx.windows import as_pair, windows_of


def _conv(of: Operands, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    data, how = of.operand(node.input[0])
    weights = _weights(of, node.input[1])
    scale = weights.scale_along(0)
    if scale is None:
        raise NotOffloadable("its weights have scales along another dimension than that of filters")
    values = weights.values
    check_groups(attributes.get("group", 1), values.shape[1:2], of.shape(node.input[0]), values.shape[0])
    windows = windows_of(attributes, of.shape(node.input[0]), values.shape[2:])
    made = of.scaled(group, how, greatest_sum(values), scale, *node.input[2:3])
    return Conv(
        group.name, (data,), group.output, (how,), group.how, as_images(values), made.weight_scale, made.bias,
        windows.strides, windows.pads, windows.dilations, attributes.get("group", 1), group.relu, nodes=group.numbers,
        in_float=made.in_float, rest=made.rest,
    )  # fmt: skip


def check_groups(groups: int, depth: Sequence[int], shape: Sequence[int], whole: int) -> None:
    """Raise Unfit unless data have as many channels as all groups of weights together."""
    if groups < 1 or len(shape) < 3 or not depth or depth[0] * groups != shape[1] or whole % groups:
        raise NotOffloadable(f"its weights in {groups} groups do not have the channels of its data")


def _weights(of: Operands, name: str) -> Constant:
    weights = of.values.constant_behind(name)
    if weights is None:
        raise NotOffloadable("its weights are no constants of 8 bits")
    return weights


def as_images(values: NDArray[np.int64]) -> NDArray[np.int16]:
    """Weights (M, C, KH, KW) of such, or of (M, C, K)."""
    wide = values.reshape(*values.shape[:2], 1, -1) if values.ndim == 3 else values
    return weights_of(wide)


def _conv_transpose(of: Operands, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    data, how = of.operand(node.input[0])
    weights = _weights(of, node.input[1])
    groups = attributes.get("group", 1)
    channels = (weights.values.shape[0] // groups,) if groups > 0 and weights.values.ndim > 2 else ()
    check_groups(groups, channels, of.shape(data), weights.values.shape[0])
    filters = weights.values.shape[1] * groups
    scale = weights.scale_along(1)
    if scale is None or (groups > 1 and weights.scale.size > 1):
        raise NotOffloadable("its weights have scales along another dimension than that of filters")
    kernel, shape, made = weights.values.shape[2:], of.shape(data), of.shape(group.output)
    if len(kernel) not in (1, 2):
        raise NotOffloadable(f"its windows have {len(kernel)} dimensions, not 1 or 2")
    rank = len(kernel)
    strides, dilations = (tuple(attributes.get(name, (1,) * rank)) for name in ("strides", "dilations"))
    reaches = [(taps - 1) * apart + 1 for taps, apart in zip(kernel, dilations, strict=True)]
    more = tuple(attributes.get("output_padding", (0,) * rank))
    if any(each >= max(pair) for each, pair in zip(more, zip(strides, dilations, strict=False), strict=False)):
        raise NotOffloadable("it adds more rows or columns than a step or the distance of taps leaves room for")
    before = _left_out(attributes, shape[2:], made[2:], reaches, strides)
    scale = np.full(filters, scale[0]) if groups > 1 else scale
    turned = _turned(weights.values, groups)
    scaled = of.scaled(group, how, greatest_sum(turned), scale, *node.input[2:3])
    return ConvTranspose(
        group.name, (data,), group.output, (how,), group.how, as_images(turned),
        scaled.weight_scale, scaled.bias, as_pair(strides, 1), as_pair(before, 0), as_pair(dilations, 1), groups,
        group.relu, nodes=group.numbers, in_float=scaled.in_float, rest=scaled.rest,
    )  # fmt: skip


def _turned(values: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """Weights (C, M / groups, …) as those of a convolution, (M, C / groups, …), turned round."""
    channels, filters, *kernel = values.shape
    split = values.reshape(groups, channels // groups, filters, *kernel).swapaxes(1, 2)
    joined = split.reshape(groups * filters, channels // groups, *kernel)
    return np.flip(joined, axis=tuple(range(2, joined.ndim)))


def _left_out(
    attributes: Mapping[str, Any],
    sizes: Sequence[int],
    made: Sequence[int],
    reaches: Sequence[int],
    strides: Sequence[int],
) -> list[int]:
    """What a transposed convolution leaves out before its first row and column."""
    automatic, rank = attributes.get("auto_pad", "NOTSET"), len(sizes)
    if automatic in ("NOTSET", "VALID") and "output_shape" not in attributes:
        return list(attributes.get("pads", (0,) * rank)[:rank]) if automatic == "NOTSET" else [0] * rank
    more = attributes.get("output_padding", (0,) * rank)
    missing = [
        step * (size - 1) + wide + reach - count
        for step, size, wide, reach, count in zip(strides, sizes, more, reaches, made, strict=True)
    ]
    return [each // 2 if automatic == "SAME_UPPER" else each - each // 2 for each in missing]


CONVOLUTIONS: Mapping[str, Callable[[Operands, NodeGroup], Layer]] = {"Conv": _conv, "ConvTranspose": _conv_transpose}
