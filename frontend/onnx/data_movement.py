"""Match data movement: Reshape, Transpose, Slice, Pad, Concat, Resize and the like.

An operand with another scale or zero point than the result is requantised first, by a Lookup whose table holds what
DequantizeLinear and QuantizeLinear compute in float32.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.qdq_groups import MatchContext, NodeGroup
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

MAX_PAD_EXTENT = 1 << 16
"""The largest extent of a dimension with reflected, edge or wrapped padding, whose indices are enumerated."""


def requantised(ctx: MatchContext, consumer: str, tensor: str, quant: Quantisation, target: Quantisation) -> str:
    """The tensor requantised to another scale; adds a Lookup layer, named after its consumer ``consumer``."""
    if quant == target:
        return tensor
    name = _name_of_requantised(tensor, quant, target)
    if name not in ctx.found.layers:
        before = np.iinfo(quant.dtype)
        table = _requantised_values(np.arange(before.min, before.max + 1), quant, target)
        ctx.found.layers[name] = Lookup(f"{consumer}.requantised", (tensor,), name, (quant,), target, table)
        ctx.note_type(name, target.dtype, ctx.shape(tensor))
    return name


def _requantised_operand(ctx: MatchContext, group: NodeGroup, name: str) -> tuple[str, Mapping[str, NDArray[Any]]]:
    tensor, quant, held = ctx.operand_or_constant(name)
    target = group.quant
    if quant == target or not held:
        return requantised(ctx, group.name, tensor, quant, target), held
    requantised_name = _name_of_requantised(tensor, quant, target)
    ctx.note_type(requantised_name, target.dtype, ctx.shape(tensor))
    return requantised_name, {requantised_name: _requantised_values(held[tensor], quant, target)}


def requantised_operands(
    ctx: MatchContext, group: NodeGroup, names: Sequence[str]
) -> tuple[tuple[str, ...], Mapping[str, NDArray[Any]]]:
    """Operands at the scale of the result, and values of the constant ones. Raises NotOffloadable if all are."""
    found = [_requantised_operand(ctx, group, name) for name in names]
    if all(held for _, held in found):
        raise NotOffloadable("all of its operands are constants")
    return tuple(tensor for tensor, _ in found), {name: held[name] for _, held in found for name in held}


def _name_of_requantised(tensor: str, *scales: Quantisation) -> str:
    """A name that is unique for the source and target scales: consumers may differ in both."""
    return "@".join((tensor, *(f"{each.scale:.9g},{each.zero_point},{each.dtype}" for each in scales)))


def _requantised_values(values: NDArray[Any], quant: Quantisation, target: Quantisation) -> NDArray[Any]:
    numbers = (values.astype(np.int64) - quant.zero_point).astype(np.float32) * np.float32(quant.scale)
    return quantise_values(numbers, target)


def quantise_values(numbers: NDArray[Any], quant: Quantisation) -> NDArray[Any]:
    """Quantise floats as QuantizeLinear does."""
    limits = np.iinfo(quant.dtype)
    steps = np.rint(numbers.astype(np.float32) / np.float32(quant.scale)) + quant.zero_point
    values: NDArray[Any] = np.clip(steps, limits.min, limits.max).astype(quant.dtype)
    return values


def _moved(kind: type[Layer], ctx: MatchContext, group: NodeGroup, data: Sequence[str], *more: Any) -> Layer:
    inputs, held = requantised_operands(ctx, group, data)
    return kind(
        group.name, inputs, group.output, (group.quant,) * len(inputs), group.quant, *more, nodes=group.numbers,
        constants=held,
    )  # fmt: skip


def _reshape(ctx: MatchContext, group: NodeGroup) -> Layer:
    return _moved(Reshape, ctx, group, group.core.input[:1])


def _transpose(ctx: MatchContext, group: NodeGroup) -> Layer:
    rank = len(ctx.shape(group.core.input[0]))
    order = attributes_of(group.core).get("perm", tuple(reversed(range(rank))))
    return _moved(Transpose, ctx, group, group.core.input, tuple(order))


def _slice(ctx: MatchContext, group: NodeGroup) -> Layer:
    node, shape = group.core, ctx.shape(group.core.input[0])
    starts, ends, *rest = (_numbers(ctx, name) for name in node.input[1:])
    del ends
    axes = rest[0] if rest and rest[0] is not None else list(range(len(starts or [])))
    steps = rest[1] if len(rest) > 1 and rest[1] is not None else [1] * len(axes)
    if starts is None:
        raise NotOffloadable("its bounds are not constants")
    first, strides = [0] * len(shape), [1] * len(shape)
    for axis, start, step in zip(axes, starts, steps, strict=True):
        size = shape[axis]
        from_end = start + size if start < 0 else start
        first[axis], strides[axis] = min(max(from_end, 0), size if step > 0 else size - 1), step
    return _moved(Slice, ctx, group, node.input[:1], tuple(first), tuple(strides))


def _numbers(ctx: MatchContext, name: str) -> list[int] | None:
    values = ctx.model.constant(name) if name else None
    return None if values is None else [int(each) for each in values.reshape(-1)]


def _pad(ctx: MatchContext, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    rank = len(ctx.shape(node.input[0]))
    if not rank:
        raise NotOffloadable("its input is a scalar")
    widths = _numbers(ctx, node.input[1]) if len(node.input) > 1 else attributes.get("pads")
    attribute_value = np.full(1, attributes.get("value", 0.0))  # before opset 11
    value = ctx.model.constant(node.input[2]) if len(node.input) > 2 and node.input[2] else attribute_value
    axes = _numbers(ctx, node.input[3]) if len(node.input) > 3 and node.input[3] else list(range(rank))
    if widths is None or value is None or axes is None:
        raise NotOffloadable("its pads, padding value or axes are not constants")
    before, after = [0] * rank, [0] * rank
    for axis, first, last in zip(axes, widths[: len(axes)], widths[len(axes) :], strict=True):
        before[axis], after[axis] = first, last
    mode = attributes.get("mode", "constant")
    if mode != "constant":
        extents = zip(ctx.shape(node.input[0]), before, after, strict=True)
        runs = tuple(_runs(_source_indices(mode, *each)) for each in extents)
        return _moved(Pad, ctx, group, node.input[:1], tuple(before), None, runs)
    number = float(value.reshape(-1)[0])
    if np.isnan(number):
        raise NotOffloadable("its padding value is NaN")
    filling = int(quantise_values(np.array([number]), group.quant)[0]) - (128 if group.quant.dtype == "uint8" else 0)
    return _moved(Pad, ctx, group, node.input[:1], tuple(before), filling)


def _source_indices(mode: str, size: int, before: int, after: int) -> list[int]:
    """The source index of each index along a padded dimension; negative pads crop before positive ones extend."""
    first = max(-before, 0)
    extent = size - first - max(-after, 0)
    if extent < 1:
        raise NotOffloadable("its negative pads remove a whole dimension")
    indices = range(-max(before, 0), extent + max(after, 0))
    if len(indices) > MAX_PAD_EXTENT:
        raise NotOffloadable(f"its result has extent {len(indices)} along a dimension, more than {MAX_PAD_EXTENT}")
    if mode == "edge":
        return [first + min(max(index, 0), extent - 1) for index in indices]
    if mode == "wrap":
        return [first + index % extent for index in indices]
    if mode != "reflect":
        raise NotOffloadable(f"its mode {mode!r} is not supported")
    period = max(2 * (extent - 1), 1)
    return [first + min(index % period, period - index % period) if extent > 1 else first for index in indices]


def _runs(indices: Sequence[int]) -> tuple[Run, ...]:
    """Run-length encoding of source indices, as runs with a stride of -1, 0 or 1."""
    runs: list[Run] = []
    for index in indices:
        last = runs[-1] if runs else None
        step = 0 if last is None else index - (last.start + (last.count - 1) * last.step)
        if last is not None and abs(step) <= 1 and (last.count == 1 or step == last.step):
            runs[-1] = Run(last.start, step, last.count + 1)
        else:
            runs.append(Run(index, 1, 1))
    return tuple(runs)


def _resize(ctx: MatchContext, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    before, after = ctx.shape(node.input[0]), ctx.shape(group.output)
    mode = attributes.get("coordinate_transformation_mode", "half_pixel")
    rounding = attributes.get("nearest_mode", "round_prefer_floor")
    whole = all(m % n == 0 for n, m in zip(before, after, strict=True))
    doubled = whole and max(m // n for n, m in zip(before, after, strict=True)) <= 2  # a half rounds down
    repeats = (mode == "asymmetric" and (rounding == "floor" or (rounding == "round_prefer_floor" and doubled))) or (
        mode in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")
        and rounding in ("round_prefer_floor", "round_prefer_ceil")
    )
    if node.op_type == "Upsample":
        repeats = True
    if attributes.get("mode", "nearest") != "nearest" or not repeats or not whole:
        raise NotOffloadable("it does not repeat each value a whole number of times")
    return _moved(Resize, ctx, group, node.input[:1], tuple(m // n for n, m in zip(before, after, strict=True)))


def _concat(ctx: MatchContext, group: NodeGroup) -> Layer:
    axis = attributes_of(group.core)["axis"] % len(ctx.shape(group.core.input[0]))
    return _moved(Concat, ctx, group, group.core.input, axis)


def _split(ctx: MatchContext, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    shape = ctx.shape(node.input[0])
    axis = attributes.get("axis", 0) % len(shape)
    start = 0
    for name in node.output:
        if name == group.source:
            break
        start += ctx.shape(name)[axis]
    starts = tuple(start if n == axis else 0 for n in range(len(shape)))
    return _moved(Slice, ctx, group, node.input[:1], starts, (1,) * len(shape))


DATA_MOVEMENT: Mapping[str, Callable[[MatchContext, NodeGroup], Layer]] = {
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
