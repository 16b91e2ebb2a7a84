"""Nodes that move values and compute nothing: each as a layer, and its data brought to the result's scale before.

Where data are read by other scales than the result, they are requantised first, by tables, as DequantizeLinear and
QuantizeLinear do it in float32.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.groups import NodeGroup, Operands
from lathe.frontend.onnx.layers import (
    Concat,
    Layer,
    Lookup,
    Pad,
    Quantisation,
    Reshape,
    Resize,
    Slice,
    Transpose,
)
from lathe.frontend.onnx.reading import attributes_of
from lathe.frontend.onnx.unfit import Unfit


def requantised(of: Operands, tensor: str, how: Quantisation, wanted: Quantisation) -> str:
    """The tensor with the same numbers by another scale, for which there is a layer then."""
    if how == wanted:
        return tensor
    name = f"{tensor}@{wanted.scale:.9g},{wanted.zero_point},{wanted.dtype}"
    if name not in of.found.layers:
        before = np.iinfo(how.dtype)
        values = np.arange(before.min, before.max + 1)
        numbers = (values - how.zero_point).astype(np.float32) * np.float32(how.scale)
        table = quantised(numbers, wanted)
        of.found.layers[name] = Lookup(name, (tensor,), name, (how,), wanted, table)
        of.note_type(name, wanted.dtype, of.shape(tensor))
    return name


def quantised(numbers: NDArray[Any], how: Quantisation) -> NDArray[Any]:
    """What QuantizeLinear makes of numbers."""
    limits = np.iinfo(how.dtype)
    steps = np.rint(numbers.astype(np.float32) / np.float32(how.scale)) + how.zero_point
    values: NDArray[Any] = np.clip(steps, limits.min, limits.max).astype(how.dtype)
    return values


def _data(of: Operands, group: NodeGroup, name: str) -> str:
    return requantised(of, *of.operand(name), group.how)


def _moved(kind: type[Layer], of: Operands, group: NodeGroup, data: Sequence[str], *more: Any) -> Layer:
    inputs = tuple(_data(of, group, name) for name in data)
    return kind(group.name, inputs, group.output, (group.how,) * len(inputs), group.how, *more, nodes=group.numbers)


def _reshape(of: Operands, group: NodeGroup) -> Layer:
    return _moved(Reshape, of, group, group.core.input[:1])


def _transpose(of: Operands, group: NodeGroup) -> Layer:
    rank = len(of.shape(group.core.input[0]))
    order = attributes_of(group.core).get("perm", tuple(reversed(range(rank))))
    return _moved(Transpose, of, group, group.core.input, tuple(order))


def _slice(of: Operands, group: NodeGroup) -> Layer:
    node, shape = group.core, of.shape(group.core.input[0])
    starts, ends, *rest = (_numbers(of, name) for name in node.input[1:])
    del ends
    axes = rest[0] if rest and rest[0] is not None else list(range(len(starts or [])))
    steps = rest[1] if len(rest) > 1 and rest[1] is not None else [1] * len(axes)
    if starts is None or any(step < 1 for step in steps):
        raise Unfit("its bounds are no constants, or it runs backwards")
    first, apart = [0] * len(shape), [1] * len(shape)
    for axis, start, step in zip(axes, starts, steps, strict=True):
        size = shape[axis]
        first[axis], apart[axis] = min(max(start + size if start < 0 else start, 0), size), step
    return _moved(Slice, of, group, node.input[:1], tuple(first), tuple(apart))


def _numbers(of: Operands, name: str) -> list[int] | None:
    values = of.model.constant(name) if name else None
    return None if values is None else [int(each) for each in values.reshape(-1)]


def _pad(of: Operands, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    rank = len(of.shape(node.input[0]))
    widths = _numbers(of, node.input[1]) if len(node.input) > 1 else attributes.get("pads")
    told = np.full(1, attributes.get("value", 0.0))  # before opset 11
    value = of.model.constant(node.input[2]) if len(node.input) > 2 and node.input[2] else told
    axes = _numbers(of, node.input[3]) if len(node.input) > 3 and node.input[3] else list(range(rank))
    if attributes.get("mode", "constant") != "constant" or widths is None or value is None or axes is None:
        raise Unfit("what it adds is no constant")
    if min(widths) < 0:
        raise Unfit("it takes values away")
    number = float(value.reshape(-1)[0])
    if np.isnan(number):
        raise Unfit("what it adds is no number")
    before = [0] * rank
    for axis, width in zip(axes, widths[: len(axes)], strict=True):
        before[axis] = width
    filling = int(quantised(np.array([number]), group.how)[0]) - (128 if group.how.dtype == "uint8" else 0)
    return _moved(Pad, of, group, node.input[:1], tuple(before), filling)


def _resize(of: Operands, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    before, after = of.shape(node.input[0]), of.shape(group.output)
    mode = attributes.get("coordinate_transformation_mode", "half_pixel")
    rounding = attributes.get("nearest_mode", "round_prefer_floor")
    whole = all(m % n == 0 for n, m in zip(before, after, strict=True))
    doubled = whole and max(m // n for n, m in zip(before, after, strict=True)) <= 2  # a half goes to the value before
    repeats = (mode == "asymmetric" and (rounding == "floor" or (rounding == "round_prefer_floor" and doubled))) or (
        mode in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")
        and rounding in ("round_prefer_floor", "round_prefer_ceil")
    )
    if node.op_type == "Upsample":
        repeats = True
    if attributes.get("mode", "nearest") != "nearest" or not repeats or not whole:
        raise Unfit("it does not repeat values a whole number of times")
    return _moved(Resize, of, group, node.input[:1], tuple(m // n for n, m in zip(before, after, strict=True)))


def _concat(of: Operands, group: NodeGroup) -> Layer:
    axis = attributes_of(group.core)["axis"] % len(of.shape(group.core.input[0]))
    return _moved(Concat, of, group, group.core.input, axis)


def _split(of: Operands, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    shape = of.shape(node.input[0])
    axis = attributes.get("axis", 0) % len(shape)
    start = 0
    for name in node.output:
        if name == group.source:
            break
        start += of.shape(name)[axis]
    starts = tuple(start if n == axis else 0 for n in range(len(shape)))
    return _moved(Slice, of, group, node.input[:1], starts, (1,) * len(shape))


MOVES: Mapping[str, Callable[[Operands, NodeGroup], Layer]] = {
    "Concat": _concat,
    "Flatten": _reshape,
    "Identity": _reshape,
    "Pad": _pad,
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _reshape,
    "Transpose": _transpose,
    "Unsqueeze": _reshape,
    "Upsample": _resize,
}
