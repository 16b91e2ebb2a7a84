"""Match MaxPool, AveragePool, GlobalAveragePool and ReduceMean."""

from collections.abc import Callable, Mapping, Sequence
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.data_movement import requantised
from lathe.frontend.onnx.qdq_groups import MatchContext, NodeGroup
from lathe.frontend.onnx.quant_graph import AveragePool, Layer, MaxPool, Mean
from lathe.frontend.onnx.reading import attributes_of
from lathe.frontend.onnx.unsupported import NotOffloadable
from lathe.frontend.onnx.windows import Windows, as_pair, pads_for_ceil_mode, windows_of


def _max_pool(ctx: MatchContext, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    data, quant = ctx.operand(node.input[0])
    if len(node.output) > 1 and node.output[1]:
        raise NotOffloadable("MaxPool with the Indices output is not supported")
    windows = _windows(attributes, ctx.shape(data))
    pads = windows.pads
    if attributes.get("ceil_mode", 0):
        pads = pads_for_ceil_mode(windows, ctx.shape(group.output)[2:])
    data = requantised(ctx, group.name, data, quant, group.quant)
    return MaxPool(
        group.name, (data,), group.output, (group.quant,), group.quant, windows.kernel, windows.strides, pads,
        windows.dilations, nodes=group.numbers,
    )  # fmt: skip


def _global_average(ctx: MatchContext, group: NodeGroup) -> Layer:
    data, quant = ctx.operand(group.core.input[0])
    size = ctx.shape(data)[2:]
    if len(size) not in (1, 2):
        raise NotOffloadable("its input does not have 1 or 2 spatial dimensions")
    return AveragePool(
        group.name, (data,), group.output, (quant,), group.quant, as_pair(size, 1), (1, 1), relu=group.relu,
        nodes=group.numbers,
    )  # fmt: skip


def _average(ctx: MatchContext, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    data, quant = ctx.operand(node.input[0])
    windows = _windows(attributes, ctx.shape(data))
    output_shape = ctx.shape(group.output)[2:]
    counted = _counted(windows, as_pair(output_shape, 1), with_padding=bool(attributes.get("count_include_pad", 0)))
    pads = pads_for_ceil_mode(windows, output_shape) if attributes.get("ceil_mode", 0) else windows.pads
    taps = windows.kernel[0] * windows.kernel[1]
    if counted.min() < 1:
        raise NotOffloadable("one of its windows is empty")
    if lcm(*np.unique(counted).tolist()) * 255 >= 2**31:
        raise NotOffloadable("the least common multiple of the window sizes overflows 32 bits")
    return AveragePool(
        group.name, (data,), group.output, (quant,), group.quant, windows.kernel, windows.strides, pads, group.relu,
        None if np.all(counted == taps) else counted, windows.dilations, nodes=group.numbers,
    )  # fmt: skip


def _windows(attributes: Mapping[str, Any], shape: Sequence[int]) -> Windows:
    """The windows of a pool, if onnxruntime interprets ``auto_pad`` as ONNX does.

    With ``auto_pad``, its pools ignore dilations, and crop the input where a stride is larger than the kernel.
    """
    windows = windows_of(attributes, shape, attributes["kernel_shape"])
    is_same = attributes.get("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER")
    if is_same and not windows.plain:
        raise NotOffloadable("auto_pad with dilations is not supported")
    if is_same and any(taps < step for taps, step in zip(windows.kernel, windows.strides, strict=True)):
        raise NotOffloadable("auto_pad crops the input, as a stride is larger than the kernel")
    return windows


def _counted(windows: Windows, output_shape: Sequence[int], *, with_padding: bool) -> NDArray[np.int64]:
    """The number of values in each window, (HO, WO): of the input, or also of its padding."""
    counts = []
    for axis, count in enumerate(output_shape):
        before, after, size = windows.pads[axis], windows.pads[axis + 2], windows.sizes[axis]
        first = np.arange(count) * windows.strides[axis] - before
        taps = first[:, np.newaxis] + np.arange(windows.kernel[axis]) * windows.dilations[axis]
        low, high = (-before, size + after) if with_padding else (0, size)
        counts.append(np.sum((taps >= low) & (taps < high), axis=1))
    product: NDArray[np.int64] = np.multiply.outer(counts[0], counts[1]).astype(np.int64)
    return product


def _mean(ctx: MatchContext, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    data, quant = ctx.operand(node.input[0])
    shape = ctx.shape(data)
    axes = attributes.get("axes")
    if axes is None and len(node.input) > 1 and node.input[1]:
        constant = ctx.model.constant(node.input[1])
        if constant is None:
            raise NotOffloadable("its axes are not constants")
        axes = constant.tolist()
    if not axes and attributes.get("noop_with_empty_axes", 0):
        axes = []
    else:
        axes = sorted({axis % len(shape) for axis in axes or range(len(shape))})  # may repeat an axis
    keepdims = bool(attributes.get("keepdims", 1))
    if keepdims and len(shape) in (3, 4) and axes == list(range(2, len(shape))):
        return AveragePool(
            group.name, (data,), group.output, (quant,), group.quant, as_pair(shape[2:], 1), (1, 1), relu=group.relu,
            nodes=group.numbers,
        )  # fmt: skip
    return Mean(
        group.name, (data,), group.output, (quant,), group.quant, tuple(axes), keepdims, group.relu, nodes=group.numbers
    )


POOLS: Mapping[str, Callable[[MatchContext, NodeGroup], Layer]] = {
    "AveragePool": _average,
    "GlobalAveragePool": _global_average,
    "MaxPool": _max_pool,
    "ReduceMean": _mean,
}
