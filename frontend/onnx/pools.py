"""Windows of images as layers: the greatest value of each, and the average; and averages along dimensions."""

from collections.abc import Callable, Mapping, Sequence
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.data_movement import requantised
from lathe.frontend.onnx.qdq_groups import NodeGroup, Operands
from lathe.frontend.onnx.quant_graph import AveragePool, Layer, MaxPool, Mean
from lathe.frontend.onnx.reading import attributes_of
from lathe.frontend.onnx.unsupported import NotOffloadable
from lathe.frontend.onnx.windows import Windows, as_pair, wide_enough, windows_of


def _max_pool(of: Operands, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    data, how = of.operand(node.input[0])
    if len(node.output) > 1 and node.output[1]:
        raise NotOffloadable("it says where the greatest values are")
    windows = _windows(attributes, of.shape(data))
    pads = windows.pads
    if attributes.get("ceil_mode", 0):
        pads = wide_enough(windows, of.shape(group.output)[2:])
    data = requantised(of, group.name, data, how, group.how)
    return MaxPool(
        group.name, (data,), group.output, (group.how,), group.how, windows.kernel, windows.strides, pads,
        windows.dilations, nodes=group.numbers,
    )  # fmt: skip


def _global_average(of: Operands, group: NodeGroup) -> Layer:
    data, how = of.operand(group.core.input[0])
    size = of.shape(data)[2:]
    if len(size) not in (1, 2):
        raise NotOffloadable("it is no average of an image")
    return AveragePool(
        group.name, (data,), group.output, (how,), group.how, as_pair(size, 1), (1, 1), relu=group.relu,
        nodes=group.numbers,
    )  # fmt: skip


def _average(of: Operands, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    data, how = of.operand(node.input[0])
    windows = _windows(attributes, of.shape(data))
    made = of.shape(group.output)[2:]
    counted = _counted(windows, as_pair(made, 1), with_borders=bool(attributes.get("count_include_pad", 0)))
    pads = wide_enough(windows, made) if attributes.get("ceil_mode", 0) else windows.pads
    taps = windows.kernel[0] * windows.kernel[1]
    if counted.min() < 1:
        raise NotOffloadable("one of its windows is empty")
    if lcm(*np.unique(counted).tolist()) * 255 >= 2**31:
        raise NotOffloadable("its windows have numbers of values with too large a multiple in common")
    return AveragePool(
        group.name, (data,), group.output, (how,), group.how, windows.kernel, windows.strides, pads, group.relu,
        None if np.all(counted == taps) else counted, windows.dilations, nodes=group.numbers,
    )  # fmt: skip


def _windows(attributes: Mapping[str, Any], shape: Sequence[int]) -> Windows:
    """The windows of a pool, if onnxruntime means the same by ``auto_pad`` as ONNX does.

    Its pools take no distances of taps into account, and leave out values before and behind, where steps are wider.
    """
    windows = windows_of(attributes, shape, attributes["kernel_shape"])
    same = attributes.get("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER")
    if same and not windows.plain:
        raise NotOffloadable("its auto_pad is not defined with dilations")
    if same and any(taps < step for taps, step in zip(windows.kernel, windows.strides, strict=True)):
        raise NotOffloadable("its auto_pad takes away from the image")
    return windows


def _counted(windows: Windows, made: Sequence[int], *, with_borders: bool) -> NDArray[np.int64]:
    """How many values each window has: those of the image, or those of its borders, too."""
    along = []
    for axis, count in enumerate(made):
        before, behind, size = windows.pads[axis], windows.pads[axis + 2], windows.sizes[axis]
        first = np.arange(count) * windows.strides[axis] - before
        taps = first[:, np.newaxis] + np.arange(windows.kernel[axis]) * windows.dilations[axis]
        low, high = (-before, size + behind) if with_borders else (0, size)
        along.append(np.sum((taps >= low) & (taps < high), axis=1))
    counted: NDArray[np.int64] = np.multiply.outer(along[0], along[1]).astype(np.int64)
    return counted


def _mean(of: Operands, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    data, how = of.operand(node.input[0])
    shape = of.shape(data)
    axes = attributes.get("axes")
    if axes is None and len(node.input) > 1 and node.input[1]:
        held = of.model.constant(node.input[1])
        if held is None:
            raise NotOffloadable("the dimensions of its average are no constants")
        axes = held.tolist()
    if not axes and attributes.get("noop_with_empty_axes", 0):
        axes = []
    else:
        axes = sorted({axis % len(shape) for axis in axes or range(len(shape))})  # one named twice counts once
    kept = bool(attributes.get("keepdims", 1))
    if kept and len(shape) in (3, 4) and axes == list(range(2, len(shape))):
        return AveragePool(
            group.name, (data,), group.output, (how,), group.how, as_pair(shape[2:], 1), (1, 1), relu=group.relu,
            nodes=group.numbers,
        )  # fmt: skip
    return Mean(
        group.name, (data,), group.output, (how,), group.how, tuple(axes), kept, group.relu, nodes=group.numbers
    )


POOLS: Mapping[str, Callable[[Operands, NodeGroup], Layer]] = {
    "AveragePool": _average,
    "GlobalAveragePool": _global_average,
    "MaxPool": _max_pool,
    "ReduceMean": _mean,
}
