"""Match a QDQ group of Conv or ConvTranspose to an integer layer: checks of its weights, and their layout."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.qdq_groups import MatchContext, NodeGroup, int16_weights, max_sum
from lathe.frontend.onnx.qdq_values import Constant
from lathe.frontend.onnx.quant_graph import Conv, ConvTranspose, Layer
from lathe.frontend.onnx.reading import attributes_of
from lathe.frontend.onnx.unsupported import NotOffloadable
from lathe.frontend.onnx.windows import as_pair, windows_of


def _conv(ctx: MatchContext, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    data, quant = ctx.operand(node.input[0])
    weights = _weights(ctx, node.input[1])
    scale = weights.scale_along(0)
    if scale is None:
        raise NotOffloadable("its weights have scales along another axis than the output channels")
    values = weights.values
    check_groups(attributes.get("group", 1), values.shape[1:2], ctx.shape(node.input[0]), values.shape[0])
    windows = windows_of(attributes, ctx.shape(node.input[0]), values.shape[2:])
    scaled = ctx.scaled(group, quant, max_sum(values), scale, *node.input[2:3])
    return Conv(
        group.name, (data,), group.output, (quant,), group.quant, as_images(values), scaled.weight_scale, scaled.bias,
        windows.strides, windows.pads, windows.dilations, attributes.get("group", 1), group.relu, nodes=group.numbers,
        float_sums=scaled.in_float, bias_residual=scaled.rest,
    )  # fmt: skip


def check_groups(groups: int, depth: Sequence[int], shape: Sequence[int], filters: int) -> None:
    """Raise NotOffloadable unless the data has as many channels as all groups of the weights together."""
    if groups < 1 or len(shape) < 3 or not depth or depth[0] * groups != shape[1] or filters % groups:
        raise NotOffloadable(f"its weights in {groups} groups do not match the channels of its data")


def _weights(ctx: MatchContext, name: str) -> Constant:
    weights = ctx.values.dequantised_constant(name)
    if weights is None:
        raise NotOffloadable("its weights are not 8-bit constants")
    return weights


def as_images(values: NDArray[np.int64]) -> NDArray[np.int16]:
    """Weights (M, C, KH, KW) or (M, C, K) as (M, C, KH, KW)."""
    wide = values.reshape(*values.shape[:2], 1, -1) if values.ndim == 3 else values
    return int16_weights(wide)


def _conv_transpose(ctx: MatchContext, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    data, quant = ctx.operand(node.input[0])
    weights = _weights(ctx, node.input[1])
    groups = attributes.get("group", 1)
    channels = (weights.values.shape[0] // groups,) if groups > 0 and weights.values.ndim > 2 else ()
    check_groups(groups, channels, ctx.shape(data), weights.values.shape[0])
    filters = weights.values.shape[1] * groups
    scale = weights.scale_along(1)
    if scale is None or (groups > 1 and weights.scale.size > 1):
        raise NotOffloadable("its weights have scales along another axis than the output channels")
    kernel, shape, output_shape = weights.values.shape[2:], ctx.shape(data), ctx.shape(group.output)
    if len(kernel) not in (1, 2):
        raise NotOffloadable(f"its kernel has {len(kernel)} spatial dimensions, not 1 or 2")
    rank = len(kernel)
    strides, dilations = (tuple(attributes.get(name, (1,) * rank)) for name in ("strides", "dilations"))
    extents = [(taps - 1) * apart + 1 for taps, apart in zip(kernel, dilations, strict=True)]
    out_pads = tuple(attributes.get("output_padding", (0,) * rank))
    if any(each >= max(pair) for each, pair in zip(out_pads, zip(strides, dilations, strict=False), strict=False)):
        raise NotOffloadable("output_padding must be smaller than stride or dilation")
    crop = _crop_before(attributes, shape[2:], output_shape[2:], extents, strides)
    scale = np.full(filters, scale[0]) if groups > 1 else scale
    flipped = _flipped_weights(weights.values, groups)
    scaled = ctx.scaled(group, quant, max_sum(flipped), scale, *node.input[2:3])
    return ConvTranspose(
        group.name, (data,), group.output, (quant,), group.quant, as_images(flipped),
        scaled.weight_scale, scaled.bias, as_pair(strides, 1), as_pair(crop, 0), as_pair(dilations, 1), groups,
        group.relu, nodes=group.numbers, float_sums=scaled.in_float, bias_residual=scaled.rest,
    )  # fmt: skip


def _flipped_weights(values: NDArray[np.int64], groups: int) -> NDArray[np.int64]:
    """Weights (C, M / groups, …) as those of the equivalent convolution: (M, C / groups, …), flipped spatially."""
    channels, filters, *kernel = values.shape
    split = values.reshape(groups, channels // groups, filters, *kernel).swapaxes(1, 2)
    joined = split.reshape(groups * filters, channels // groups, *kernel)
    return np.flip(joined, axis=tuple(range(2, joined.ndim)))


def _crop_before(
    attributes: Mapping[str, Any],
    sizes: Sequence[int],
    made: Sequence[int],
    reaches: Sequence[int],
    strides: Sequence[int],
) -> list[int]:
    """The padding that a transposed convolution crops before its first row and column."""
    automatic, rank = attributes.get("auto_pad", "NOTSET"), len(sizes)
    if automatic in ("NOTSET", "VALID") and "output_shape" not in attributes:
        return list(attributes.get("pads", (0,) * rank)[:rank]) if automatic == "NOTSET" else [0] * rank
    more = attributes.get("output_padding", (0,) * rank)
    missing = [
        step * (size - 1) + wide + reach - count
        for step, size, wide, reach, count in zip(strides, sizes, more, reaches, made, strict=True)
    ]
    return [each // 2 if automatic == "SAME_UPPER" else each - each // 2 for each in missing]


CONVOLUTIONS: Mapping[str, Callable[[MatchContext, NodeGroup], Layer]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
}
