"""Merge convolution groups: compute several groups as one, with block-diagonal weights that have zeros elsewhere.

A vector holds channels of one group, so groups of 4 channels leave 12 of 16 lanes empty: in the GEMM, in the ALU
operations on its result, and in the layers before and after, whose channels are split in the same way. The host packs
the weights, so it can add zeros to them (``isa.Diagonal``), and several groups are one::

    conv[.., f] = sum over c in 0..4 of data[.., f // 4 * 4 + c] * weights[f, .., c]
    conv[.., f] = sum over c in 0..16 of data[.., f // 16 * 16 + c] * merged[f, .., c]

Multiplications with zeros are wasted: groups are merged where the whole takes fewer cycles even so. A group may have a
single channel and several filters.
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
from lathe.scheduler.layout.vector_relayout import conversion_cycles_of_span, conversions_needed
from lathe.scheduler.layout.vector_type import vector_type_of
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.passes.widen_accumulators import with_computation
from lathe.scheduler.rewriting.matchers import dim_indexed_by, is_elementwise, match_gemm_operands
from lathe.scheduler.rewriting.rewrite import rewrite_reads
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.layout import TensorLayout
from lathe.scheduler.schedule_ir.memories import ACC, INP
from lathe.scheduler.target.target import Target
from lathe.scheduler.tiling.fusion_groups import is_copy

GAIN = 0.95
"""Groups are merged only if the estimated cycles fall below this fraction of those of separate groups."""


@dataclass(frozen=True)
class _GroupedGemm:
    """A GEMM in ``groups``: output ``column`` reads channels ``column // filters * inner.extent + inner``.

    ``along``: the channel dimension of the data; ``sides``: the dimensions of ``column`` and ``inner`` in the weights.
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
        """Output channels of a group."""
        return self.column.extent // self.groups


def merge_conv_groups(schedule: Edit, target: Target) -> None:
    """Merge, in place, groups of unscheduled GEMMs whose weights are an input that nothing else reads."""
    for stage in schedule.stages:
        gemm = _grouped_gemm(schedule, stage)
        if gemm is None:
            continue
        costs = {
            count: _cycles(schedule, stage, gemm, count, target.config)
            for count in range(1, gemm.groups + 1)
            if gemm.groups % count == 0
        }
        count = min(costs, key=lambda each: (costs[each], each))
        if costs[count] < GAIN * costs[1]:
            _merge(schedule, stage, gemm, count)


def _grouped_gemm(schedule: Edit, stage: EditedStage) -> _GroupedGemm | None:
    """The grouped GEMM that a stage computes, if its weights may be packed in another way; else None."""
    computation = stage.state.computation
    pair = match_gemm_operands(computation)
    if pair is None or not is_unscheduled(stage) or not isinstance(computation.bodies[0], Reduce):
        return None
    for data, weight in (pair, pair[::-1]):
        tensor = weight.tensor
        is_input = tensor.computation is None and schedule.producer(tensor) is None and tensor is not data.tensor
        if not is_input or tensor in schedule.layouts or tensor in schedule.state.views:
            continue
        if schedule.consumers(tensor) != [stage] or None in map(as_bare_axis, weight.indices):
            continue
        match = _channels(computation, data, weight)
        if match is not None:
            return match
    return None


def _channels(computation: Computation, data: Read, weight: Read) -> _GroupedGemm | None:
    for along, index in enumerate(data.indices):
        used = axes_of(index)
        summed = [axis for axis in used if axis in computation.reduce_axes] or _unit_axes(computation, data, weight)
        inner = next(iter(summed), None)
        column = next((axis for axis in used if axis in computation.axes), None)
        if (
            len({*used, inner}) != 2
            or inner is None
            or column is None
            or reads_data(index)
            or column.start
            or inner.start
        ):
            continue
        sides = dim_indexed_by(weight, column), dim_indexed_by(weight, inner)
        channels, width = data.tensor.shape[along], inner.extent
        if sides[0] is None or sides[1] is None or channels % width or column.extent % (channels // width):
            continue
        groups = channels // width
        other_axes = axes_of(*(other for dim, other in enumerate(data.indices) if dim != along))
        whole = weight.tensor.shape[sides[0]] == column.extent and weight.tensor.shape[sides[1]] == width
        depthwise = channels == column.extent == groups  # has diagonal weights instead
        if groups < 2 or depthwise or not whole or {column, inner} & set(other_axes):
            continue
        filters, offsets = np.arange(column.extent)[:, None], np.arange(width)
        channels_read = np.asarray(evaluate(index, {column: filters, inner: offsets}))
        if np.array_equal(channels_read, filters // (column.extent // groups) * width + offsets):
            return _GroupedGemm(data, weight, column, inner, along, (sides[0], sides[1]), groups)
    return None


def _unit_axes(computation: Computation, data: Read, weight: Read) -> list[Axis]:
    """The reduction axes for the only channel of a group: of extent 1, and in no index of the data."""
    other_axes = axes_of(*data.indices)
    unit = (axis for axis in computation.reduce_axes if axis.extent == 1 and axis not in other_axes)
    return [axis for axis in unit if dim_indexed_by(weight, axis) is not None]


def _cycles(schedule: Edit, stage: EditedStage, gemm: _GroupedGemm, count: int, config: HardwareConfig) -> float:
    """Estimated cycles of the compute unit for a GEMM and its neighbours, with ``count`` groups merged into one.

    Or the bus cycles for its weights and data, if these are more. Includes the layout conversions of half-empty vectors
    between stages, on machines that store and load different vector shapes.
    """
    computation = stage.state.computation
    inp, acc, images = (
        vector_type_of(config, INP).cols,
        vector_type_of(config, ACC).cols,
        vector_type_of(config, ACC).rows,
    )
    merged_groups, width = gemm.groups // count, gemm.inner.extent * count
    vectors = merged_groups * ceil(gemm.filters * count / acc)
    taps = prod(axis.extent for axis in computation.reduce_axes) // gemm.inner.extent
    products = vectors * taps * ceil(width / inp)
    pixels = prod(axis.extent for axis in computation.axes) / gemm.column.extent / images
    bytes_moved: float = products * config.wgt_element_bytes
    cycles = pixels * (vectors + products)
    chain: list[EditedStage] = [stage]
    for follower in _elementwise_consumers(schedule, stage):
        chain.append(follower)
        cycles += pixels * vectors * _operations(follower)
    for consumer in schedule.consumers(chain[-1].tensor):  # GEMMs on the result, whose channels are split accordingly
        consuming = consumer.state.computation
        sums = prod(axis.extent for axis in consuming.reduce_axes)
        if consuming.reduce_axes and match_gemm_operands(consuming) is not None:
            total = prod(axis.extent for axis in consuming.axes) / acc / images
            cycles += total * sums / gemm.column.extent * merged_groups * ceil(gemm.filters * count / inp)
            cycles += pixels * merged_groups * _conversion_cycles(config, stage.tensor, gemm.filters * count)
    data, channels = gemm.data.tensor, gemm.groups * gemm.inner.extent
    points = prod(data.shape) / channels / images
    bytes_moved += points * merged_groups * ceil(width / inp) * config.inp_element_bytes
    producers = list(_producers(schedule, data))
    if producers:
        cycles += points * merged_groups * _conversion_cycles(config, data, width)
    for producer in producers:
        points = prod(axis.extent for axis in producer.state.computation.axes) / channels / images
        sums = prod(axis.extent for axis in producer.state.computation.reduce_axes)
        depth = 1 + ceil(sums / inp) if sums > 1 else _operations(producer)
        cycles += points * merged_groups * ceil(width / acc) * depth
    beats = bytes_moved * config.memory.cycles_per_beat / config.bus_bytes
    return max(cycles, beats) + min(cycles, beats) / 8


def _conversion_cycles(config: HardwareConfig, tensor: Tensor, channels: int) -> int:
    """Cycles for converting the layout of ``channels`` channels of a pixel, if stored and loaded vectors differ.

    0 for a single image whose channels fit the narrower vector: they are stored as they are loaded.
    """
    near = vector_type_of(config, ACC)
    if tensor.shape[0] == 1 and channels <= near.grain:
        return 0
    return conversions_needed(config) * ceil(channels / near.span) * conversion_cycles_of_span(config)


def _elementwise_consumers(schedule: Edit, stage: EditedStage) -> Iterator[EditedStage]:
    """The chain of element-wise stages that follows a stage, each the only consumer of the one before."""
    while True:
        consumers = schedule.consumers(stage.tensor)
        if len(consumers) != 1 or not is_elementwise(consumers[0].state.computation):
            return
        stage = consumers[0]
        yield stage


def _producers(schedule: Edit, tensor: Tensor) -> Iterator[EditedStage]:
    """The stages that compute a tensor, back to a reduction or to inputs."""
    producer = schedule.producer(tensor)
    while producer is not None:
        if not is_copy(producer):
            yield producer
        computation = producer.state.computation
        if computation.reduce_axes or not computation.reads:
            return
        producer = schedule.producer(computation.reads[0].tensor)


def _operations(stage: EditedStage) -> int:
    """The number of arithmetic operations on data per element of a stage."""
    bodies = stage.state.computation.bodies
    return sum(isinstance(node, Binary) and node.dtype != INDEX for body in bodies for node in walk(body))


def _merge(schedule: Edit, stage: EditedStage, gemm: _GroupedGemm, count: int) -> None:
    """Let a stage compute ``count`` groups as one, with weights to which the host adds zeros."""
    weights, each = gemm.weight.tensor, gemm.inner.extent
    inner = Axis(gemm.inner.name, count * each, 0, "reduce")
    shape = tuple(count * extent if dim == gemm.sides[1] else extent for dim, extent in enumerate(weights.shape))
    merged = Tensor(weights.name, shape, weights.dtype)
    channel: Expr = AxisRef(inner)
    if count < gemm.groups:
        group = Binary("floordiv", AxisRef(gemm.column), Const(count * gemm.filters, INDEX))
        channel = Binary("add", Binary("mul", group, Const(count * each, INDEX)), channel)

    def data(read: Read) -> Expr:
        return Read(read.tensor, (*read.indices[: gemm.along], channel, *read.indices[gemm.along + 1 :]))

    def weight(read: Read) -> Expr:
        indices = (AxisRef(inner) if dim == gemm.sides[1] else index for dim, index in enumerate(read.indices))
        return Read(merged, tuple(indices))

    old = stage.state.computation
    body = rewrite_reads(rewrite_reads(old.bodies[0], weights, weight), gemm.data.tensor, data)
    assert isinstance(body, Reduce), f"{old.name} is no sum"
    axes = tuple(inner if axis is gemm.inner else axis for axis in old.reduce_axes)
    new = Computation(old.name, old.axes, axes, (Reduce(body.kind, body.body, axes),), old.attrs)
    stage.put(with_computation(new, stage.state.tensors))
    layout = TensorLayout(weights, host_steps=_spread(weights.shape, gemm.sides, gemm.groups, count, shape))
    schedule.update(layouts={**schedule.layouts, merged: layout})


def _spread(
    shape: tuple[int, ...], sides: tuple[int, int], groups: int, count: int, merged: tuple[int, ...]
) -> tuple[LayoutStep, ...]:
    """The layout steps that pack weights of groups along the diagonals of merged groups."""
    column, inner = sides
    view = (*shape[:column], groups // count, count, shape[column] // groups, *shape[column + 1 :])
    diagonal = Diagonal(view, column + 1, count, count)
    order: list[int] = []
    for dim in range(len(shape)):
        position = dim if dim < column else dim + 2
        if dim == column:
            order += [dim, dim + 1, len(view), dim + 2]
        elif dim == inner:
            order += [len(view) + 1, position]
        else:
            order.append(position)
    return diagonal, Reordering(diagonal.shape, tuple(order), merged)
