"""Convolutions as layers, and transposed ones."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lathe.frontend.onnx.groups import Group, Operands, weights_of
from lathe.frontend.onnx.layers import Conv, ConvTranspose, Layer, Pair
from lathe.frontend.onnx.reading import attributes_of
from lathe.frontend.onnx.unfit import Unfit
from lathe.frontend.onnx.windows import pads_of


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
        group.name, (data,), group.output, (how,), group.how, weights_of(weights.values), scale, bias,
        strides, pads, dilations, attributes.get("group", 1), group.relu, nodes=group.numbers,
    )  # fmt: skip


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
        group.name, (data,), group.output, (how,), group.how, weights_of(weights.values), scale, bias, strides,
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


CONVOLUTIONS: Mapping[str, Callable[[Operands, Group], Layer]] = {"Conv": _conv, "ConvTranspose": _conv_transpose}
