"""Groups of few channels merged: products of several groups at once, with zeros where channels are of another group.

Elements hold channels of one group, so that a group of four leaves twelve of sixteen lanes empty: in the product, in
what the ALU does with it, and in the layers before and behind, whose channels are split in the same way. The host
packs the weights, so that it may put zeros beside them (``isa.Diagonal``), and several groups are one::

    conv[.., f] = sum over c in 0..4 of data[.., f // 4 * 4 + c] * weights[f, .., c]
    conv[.., f] = sum over c in 0..16 of data[.., f // 16 * 16 + c] * merged[f, .., c]

Products with zeros are made in vain: groups are merged where all takes fewer steps even so. A group may be one channel,
of which several filters are made.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod

import numpy as np

from lathe.configs import HardwareConfig
from lathe.frontend import Axis, Computation, Tensor, evaluate, walk
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.expr.dtypes import INDEX
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Binary, Const, Read, Reduce, axes_of, reads_data
from lathe.isa.layout_steps import Diagonal, LayoutStep, Reordering
from lathe.scheduler.layout.vector_relayout import conversions_needed, steps_of_span
from lathe.scheduler.layout.vector_type import element_of
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.passes.widen_accumulators import with_computation
from lathe.scheduler.rewriting.matchers import dimension_of, is_elementwise, match_gemm_operands
from lathe.scheduler.rewriting.rewrite import rewrite_reads
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.layout import TensorLayout
from lathe.scheduler.schedule_ir.memories import ACC, INP
from lathe.scheduler.target.target import Target
from lathe.scheduler.tiling.fusion_groups import is_copy

GAIN = 0.95
"""The part of the steps of separate groups that merged ones may take."""


@dataclass(frozen=True)
class _Grouped:
    """A product in ``groups``: output ``column`` reads channels ``column // filters * inner.extent + inner``.

    ``along``: the dimension of the data's channels; ``sides``: those of ``column`` and ``inner`` in the weights.
    """

    data: Read
    weight: Read
    column: Axis
    inner: Axis
    along: int
    sides: tuple[int, int]
    groups: int

    @property
    def filters(self) -> int:
        """Outputs of one group."""
        return self.column.extent // self.groups


def merge_conv_groups(schedule: Edit, target: Target) -> None:
    """Merge groups of untouched products, in place, whose weights the host gives for them alone."""
    for stage in schedule.stages:
        grouped = _grouped(schedule, stage)
        if grouped is None:
            continue
        costs = {
            count: _steps(schedule, stage, grouped, count, target.config)
            for count in range(1, grouped.groups + 1)
            if grouped.groups % count == 0
        }
        count = min(costs, key=lambda each: (costs[each], each))
        if costs[count] < GAIN * costs[1]:
            _merge(schedule, stage, grouped, count)


def _grouped(schedule: Edit, stage: EditedStage) -> _Grouped | None:
    """The product in groups that a stage is, if there is one whose weights may be packed in another way."""
    computation = stage.state.computation
    pair = match_gemm_operands(computation)
    if pair is None or not is_unscheduled(stage) or not isinstance(computation.bodies[0], Reduce):
        return None
    for data, weight in (pair, pair[::-1]):
        tensor = weight.tensor
        given = tensor.computation is None and schedule.maker(tensor) is None and tensor is not data.tensor
        if not given or tensor in schedule.layouts or tensor in schedule.state.views:
            continue
        if schedule.readers(tensor) != [stage] or None in map(as_bare_axis, weight.indices):
            continue
        found = _channels(computation, data, weight)
        if found is not None:
            return found
    return None


def _channels(computation: Computation, data: Read, weight: Read) -> _Grouped | None:
    for along, index in enumerate(data.indices):
        named = axes_of(index)
        summed = [axis for axis in named if axis in computation.reduce_axes] or _of_one_step(computation, data, weight)
        inner = next(iter(summed), None)
        column = next((axis for axis in named if axis in computation.axes), None)
        if (
            len({*named, inner}) != 2
            or inner is None
            or column is None
            or reads_data(index)
            or column.start
            or inner.start
        ):
            continue
        sides = dimension_of(weight, column), dimension_of(weight, inner)
        channels, each = data.tensor.shape[along], inner.extent
        if sides[0] is None or sides[1] is None or channels % each or column.extent % (channels // each):
            continue
        groups = channels // each
        elsewhere = axes_of(*(other for dim, other in enumerate(data.indices) if dim != along))
        whole = weight.tensor.shape[sides[0]] == column.extent and weight.tensor.shape[sides[1]] == each
        alone = channels == column.extent == groups  # each channel by itself, which is for diagonal weights
        if groups < 2 or alone or not whole or {column, inner} & set(elsewhere):
            continue
        filters, steps = np.arange(column.extent)[:, None], np.arange(each)
        read = np.asarray(evaluate(index, {column: filters, inner: steps}))
        if np.array_equal(read, filters // (column.extent // groups) * each + steps):
            return _Grouped(data, weight, column, inner, along, (sides[0], sides[1]), groups)
    return None


def _of_one_step(computation: Computation, data: Read, weight: Read) -> list[Axis]:
    """What is summed along the only channel of a group: an axis of one step, which no index of the data names."""
    elsewhere = axes_of(*data.indices)
    found = (axis for axis in computation.reduce_axes if axis.extent == 1 and axis not in elsewhere)
    return [axis for axis in found if dimension_of(weight, axis) is not None]


def _steps(schedule: Edit, stage: EditedStage, grouped: _Grouped, count: int, config: HardwareConfig) -> float:
    """Steps of the compute unit, about, for this product and its neighbours, with so many groups in one.

    Or the beats of the bus that bring the weights and the data, if these are more. Half-empty elements of what the
    program computes are turned, too, where stored ones are others than those that are loaded.
    """
    computation = stage.state.computation
    inp, acc, images = element_of(config, INP).cols, element_of(config, ACC).cols, element_of(config, ACC).rows
    parts, each = grouped.groups // count, grouped.inner.extent * count
    made = parts * ceil(grouped.filters * count / acc)
    taps = prod(axis.extent for axis in computation.reduce_axes) // grouped.inner.extent
    products = made * taps * ceil(each / inp)
    pixels = prod(axis.extent for axis in computation.axes) / grouped.column.extent / images
    moved: float = products * config.wgt_element_bytes
    steps = pixels * (made + products)
    behind: list[EditedStage] = [stage]
    for follower in _elementwise_behind(schedule, stage):
        behind.append(follower)
        steps += pixels * made * _operations(follower)
    for reader in schedule.readers(behind[-1].tensor):  # products with it: of channels that are split for this one
        reading = reader.state.computation
        sums = prod(axis.extent for axis in reading.reduce_axes)
        if reading.reduce_axes and match_gemm_operands(reading) is not None:
            total = prod(axis.extent for axis in reading.axes) / acc / images
            steps += total * sums / grouped.column.extent * parts * ceil(grouped.filters * count / inp)
            steps += pixels * parts * _steps_of_turns(config, stage.tensor, grouped.filters * count)
    before, channels = grouped.data.tensor, grouped.groups * grouped.inner.extent
    points = prod(before.shape) / channels / images
    moved += points * parts * ceil(each / inp) * config.inp_element_bytes
    makers = list(_makers(schedule, before))
    if makers:
        steps += points * parts * _steps_of_turns(config, before, each)
    for maker in makers:
        points = prod(axis.extent for axis in maker.state.computation.axes) / channels / images
        sums = prod(axis.extent for axis in maker.state.computation.reduce_axes)
        depth = 1 + ceil(sums / inp) if sums > 1 else _operations(maker)
        steps += points * parts * ceil(each / acc) * depth
    beats = moved * config.memory.cycles_per_beat / config.bus_bytes
    return max(steps, beats) + min(steps, beats) / 8


def _steps_of_turns(config: HardwareConfig, tensor: Tensor, channels: int) -> int:
    """Steps for so many channels of a pixel of each row, stored in elements that products do not load.

    One image, and channels that no more than the narrower elements hold, lie as they are loaded.
    """
    near = element_of(config, ACC)
    if tensor.shape[0] == 1 and channels <= near.grain:
        return 0
    return conversions_needed(config) * ceil(channels / near.span) * steps_of_span(config)


def _elementwise_behind(schedule: Edit, stage: EditedStage) -> Iterator[EditedStage]:
    """What is computed of a stage's result alone, element by element."""
    while True:
        readers = schedule.readers(stage.tensor)
        if len(readers) != 1 or not is_elementwise(readers[0].state.computation):
            return
        stage = readers[0]
        yield stage


def _makers(schedule: Edit, tensor: Tensor) -> Iterator[EditedStage]:
    """Who computes a tensor, from a product or from inputs on."""
    maker = schedule.maker(tensor)
    while maker is not None:
        if not is_copy(maker):
            yield maker
        computation = maker.state.computation
        if computation.reduce_axes or not computation.reads:
            return
        maker = schedule.maker(computation.reads[0].tensor)


def _operations(stage: EditedStage) -> int:
    """Operations on values in what a stage computes."""
    bodies = stage.state.computation.bodies
    return sum(isinstance(node, Binary) and node.dtype != INDEX for body in bodies for node in walk(body))


def _merge(schedule: Edit, stage: EditedStage, grouped: _Grouped, count: int) -> None:
    """Let a stage compute so many groups as one, of weights with zeros that the host adds."""
    weights, each = grouped.weight.tensor, grouped.inner.extent
    inner = Axis(grouped.inner.name, count * each, 0, "reduce")
    shape = tuple(count * extent if dim == grouped.sides[1] else extent for dim, extent in enumerate(weights.shape))
    merged = Tensor(weights.name, shape, weights.dtype)
    part: Expr = AxisRef(inner)
    if count < grouped.groups:
        first = Binary("floordiv", AxisRef(grouped.column), Const(count * grouped.filters, INDEX))
        part = Binary("add", Binary("mul", first, Const(count * each, INDEX)), part)

    def data(read: Read) -> Expr:
        return Read(read.tensor, (*read.indices[: grouped.along], part, *read.indices[grouped.along + 1 :]))

    def weight(read: Read) -> Expr:
        changed = (AxisRef(inner) if dim == grouped.sides[1] else index for dim, index in enumerate(read.indices))
        return Read(merged, tuple(changed))

    old = stage.state.computation
    body = rewrite_reads(rewrite_reads(old.bodies[0], weights, weight), grouped.data.tensor, data)
    assert isinstance(body, Reduce), f"{old.name} is no sum"
    axes = tuple(inner if axis is grouped.inner else axis for axis in old.reduce_axes)
    new = Computation(old.name, old.axes, axes, (Reduce(body.kind, body.body, axes),), old.attrs)
    stage.put(with_computation(new, stage.state.tensors))
    layout = TensorLayout(weights, spread=_spread(weights.shape, grouped.sides, grouped.groups, count, shape))
    schedule.update(layouts={**schedule.layouts, merged: layout})


def _spread(
    shape: tuple[int, ...], sides: tuple[int, int], groups: int, count: int, merged: tuple[int, ...]
) -> tuple[LayoutStep, ...]:
    """How an array of weights becomes one of merged groups: along the diagonals of matrices of groups."""
    column, inner = sides
    view = (*shape[:column], groups // count, count, shape[column] // groups, *shape[column + 1 :])
    diagonal = Diagonal(view, column + 1, count, count)
    order: list[int] = []
    for dim in range(len(shape)):
        place = dim if dim < column else dim + 2
        if dim == column:
            order += [dim, dim + 1, len(view), dim + 2]
        elif dim == inner:
            order += [len(view) + 1, place]
        else:
            order.append(place)
    return diagonal, Reordering(diagonal.shape, tuple(order), merged)
