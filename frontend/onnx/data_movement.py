"""Nodes that move values and compute nothing: each as a layer, and its data brought to the result's scale before.

Where data are read by other scales than the result, they are requantised first, by tables, as DequantizeLinear and
QuantizeLinear do it in float32.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.qdq_groups import NodeGroup, Operands
from lathe.frontend.onnx.quant_graph import (
    Concat,
    Layer,
    Lookup,
    Pad,
    Quantisation,
    Reshape,
    Resize,
    Run,
    Slice,
    Transpose,
)
from lathe.frontend.onnx.reading import attributes_of
from lathe.frontend.onnx.unsupported import NotOffloadable

MOST_PLACES = 1 << 16
"""Of a dimension with borders of its own values, which are followed one by one."""


def requantised(of: Operands, reader: str, tensor: str, how: Quantisation, wanted: Quantisation) -> str:
    """The tensor with the same numbers by another scale, for which there is a layer, named after its ``reader``."""
    if how == wanted:
        return tensor
    name = _name_of_requantised(tensor, how, wanted)
    if name not in of.found.layers:
        before = np.iinfo(how.dtype)
        table = _requantised_values(np.arange(before.min, before.max + 1), how, wanted)
        of.found.layers[name] = Lookup(f"{reader}.requantised", (tensor,), name, (how,), wanted, table)
        of.note_type(name, wanted.dtype, of.shape(tensor))
    return name


def _requantised_operand(of: Operands, group: NodeGroup, name: str) -> tuple[str, Mapping[str, NDArray[Any]]]:
    tensor, how, held = of.operand_or_constant(name)
    wanted = group.how
    if how == wanted or not held:
        return requantised(of, group.name, tensor, how, wanted), held
    made = _name_of_requantised(tensor, how, wanted)
    of.note_type(made, wanted.dtype, of.shape(tensor))
    return made, {made: _requantised_values(held[tensor], how, wanted)}


def requantised_operands(
    of: Operands, group: NodeGroup, names: Sequence[str]
) -> tuple[tuple[str, ...], Mapping[str, NDArray[Any]]]:
    """Operands by the scale of the result, and the values of those that are constants. Raises Unfit if all are."""
    found = [_requantised_operand(of, group, name) for name in names]
    if all(held for _, held in found):
        raise NotOffloadable("all of its operands are constants")
    return tuple(tensor for tensor, _ in found), {name: held[name] for _, held in found for name in held}


def _name_of_requantised(tensor: str, *scales: Quantisation) -> str:
    """A name for each scale that a tensor is read by and each that it is brought to: readers may differ in both."""
    return "@".join((tensor, *(f"{each.scale:.9g},{each.zero_point},{each.dtype}" for each in scales)))


def _requantised_values(values: NDArray[Any], how: Quantisation, wanted: Quantisation) -> NDArray[Any]:
    numbers = (values.astype(np.int64) - how.zero_point).astype(np.float32) * np.float32(how.scale)
    return quantised(numbers, wanted)


def quantised(numbers: NDArray[Any], how: Quantisation) -> NDArray[Any]:
    """What QuantizeLinear makes of numbers."""
    limits = np.iinfo(how.dtype)
    steps = np.rint(numbers.astype(np.float32) / np.float32(how.scale)) + how.zero_point
    values: NDArray[Any] = np.clip(steps, limits.min, limits.max).astype(how.dtype)
    return values


def _moved(kind: type[Layer], of: Operands, group: NodeGroup, data: Sequence[str], *more: Any) -> Layer:
    inputs, held = requantised_operands(of, group, data)
    return kind(
        group.name, inputs, group.output, (group.how,) * len(inputs), group.how, *more, nodes=group.numbers, held=held
    )


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
    if starts is None:
        raise NotOffloadable("its bounds are no constants")
    first, apart = [0] * len(shape), [1] * len(shape)
    for axis, start, step in zip(axes, starts, steps, strict=True):
        size = shape[axis]
        from_end = start + size if start < 0 else start
        first[axis], apart[axis] = min(max(from_end, 0), size if step > 0 else size - 1), step
    return _moved(Slice, of, group, node.input[:1], tuple(first), tuple(apart))


def _numbers(of: Operands, name: str) -> list[int] | None:
    values = of.model.constant(name) if name else None
    return None if values is None else [int(each) for each in values.reshape(-1)]


def _pad(of: Operands, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    rank = len(of.shape(node.input[0]))
    if not rank:
        raise NotOffloadable("its data has no dimensions")
    widths = _numbers(of, node.input[1]) if len(node.input) > 1 else attributes.get("pads")
    told = np.full(1, attributes.get("value", 0.0))  # before opset 11
    value = of.model.constant(node.input[2]) if len(node.input) > 2 and node.input[2] else told
    axes = _numbers(of, node.input[3]) if len(node.input) > 3 and node.input[3] else list(range(rank))
    if widths is None or value is None or axes is None:
        raise NotOffloadable("what it adds is no constant")
    before, behind = [0] * rank, [0] * rank
    for axis, first, last in zip(axes, widths[: len(axes)], widths[len(axes) :], strict=True):
        before[axis], behind[axis] = first, last
    mode = attributes.get("mode", "constant")
    if mode != "constant":
        places = zip(of.shape(node.input[0]), before, behind, strict=True)
        runs = tuple(_runs(_places(mode, *each)) for each in places)
        return _moved(Pad, of, group, node.input[:1], tuple(before), None, runs)
    number = float(value.reshape(-1)[0])
    if np.isnan(number):
        raise NotOffloadable("what it adds is no number")
    filling = int(quantised(np.array([number]), group.how)[0]) - (128 if group.how.dtype == "uint8" else 0)
    return _moved(Pad, of, group, node.input[:1], tuple(before), filling)


def _places(mode: str, size: int, before: int, behind: int) -> list[int]:
    """Which value of a dimension of so many is at each place of the result: what is taken away is so first."""
    first = max(-before, 0)
    left = size - first - max(-behind, 0)
    if left < 1:
        raise NotOffloadable("it takes all values away")
    wanted = range(-max(before, 0), left + max(behind, 0))
    if len(wanted) > MOST_PLACES:
        raise NotOffloadable(f"its result has {len(wanted)} values along a dimension, more than {MOST_PLACES}")
    if mode == "edge":
        return [first + min(max(place, 0), left - 1) for place in wanted]
    if mode == "wrap":
        return [first + place % left for place in wanted]
    if mode != "reflect":
        raise NotOffloadable(f"its mode is {mode!r}")
    period = max(2 * (left - 1), 1)
    return [first + min(place % period, period - place % period) if left > 1 else first for place in wanted]


def _runs(places: Sequence[int]) -> tuple[Run, ...]:
    """Places as runs, in each of which they are equally far apart, at most by 1."""
    found: list[Run] = []
    for place in places:
        last = found[-1] if found else None
        step = 0 if last is None else place - (last.start + (last.count - 1) * last.step)
        if last is not None and abs(step) <= 1 and (last.count == 1 or step == last.step):
            found[-1] = Run(last.start, step, last.count + 1)
        else:
            found.append(Run(place, 1, 1))
    return tuple(found)


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
        raise NotOffloadable("it does not repeat values a whole number of times")
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
