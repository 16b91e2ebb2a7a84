"""Shrink tensors to windows: elements between the windows that cover all consumers' reads are dead, and not computed.

A 1×1 convolution with stride 3 after a depthwise 3×3 one with stride 2 reads three of every six rows of the layer
before. Where all reads of a dimension are at ``step · n + first + r`` with ``0 <= r < width < step``, the tensor gets
two dimensions ``[n, r]`` instead, and so does its owner::

    T[y] = value(y)                                 T[n, r] = value(step · n + first + r)
    R[m] = sum over r of T[step · m + first + r]    R[m] = sum over r of T[m, r]

The first window may start before the first element, and the last end after the last: such elements are computed, and
dead. What they read beyond the bounds of another tensor is a border of zeros.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lathe.frontend import Axis, Computation, Tensor, as_affine, evaluate
from lathe.frontend.arith.conditions import guards_of
from lathe.frontend.arith.simplify import simplified_index
from lathe.frontend.expr.arithmetic import select
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Guard, Read, ReadAccess, axes_of, reads_data
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.passes.widen_accumulators import with_computation
from lathe.scheduler.rewriting.rewrite import redirect_single_reads, rewrite, rewrite_indices, rewrite_reads
from lathe.scheduler.rewriting.strided_access import replace_axis
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.stage import initial_state
from lathe.scheduler.tiling.fusion_groups import is_padding

LARGEST_FRACTION = 0.85
"""Windows replace a dimension only if they have at most this fraction of its elements: more loops make longer code."""


@dataclass(frozen=True)
class _Windows:
    """``count`` windows of ``width``, ``step`` apart, from ``first`` on."""

    first: int
    step: int
    width: int
    count: int


def shrink_to_windows(stage: EditedStage) -> bool:
    """Shrink, in place, the dimensions of an unscheduled stage that are read in windows; whether there are any."""
    shrunk = False
    dim = 0
    while dim < stage.tensor.ndim:
        windows = _windows(stage, dim)
        if windows is not None:
            _split_dim(stage, dim, windows)
            shrunk = True
        dim += 1 if windows is None else 2
    return shrunk


def insert_borders(schedule: Edit, stage: EditedStage) -> None:
    """Insert zero padding, in place, around tensors that a stage reads out of bounds without a condition."""
    for access in stage.state.computation.reads:
        bounds = [] if access.guards else _bounds(access)
        beyond = [
            (max(-low, 0), max(high - extent + 1, 0))
            for (low, high), extent in zip(bounds, access.tensor.shape, strict=False)
        ]
        if any(map(any, beyond)):
            _insert_border(schedule, stage, access, beyond)


def _bounds(access: ReadAccess) -> list[tuple[int, int]]:
    """The first and the last index along each dimension."""
    indices = [as_affine(index) for index in access.indices]
    return [(0, 0) if each is None else each.bounds() for each in indices]


def _windows(stage: EditedStage, dim: int) -> _Windows | None:
    """The windows in which all consumers read a dimension, if enough elements between them are dead; else None."""
    schedule, tensor = stage.schedule, stage.tensor
    consumers = schedule.consumers(tensor)
    if tensor in schedule.outputs or not consumers or not all(map(is_unscheduled, consumers)):
        return None
    windows: list[_Windows] = []
    for consumer in consumers:
        for access in consumer.state.computation.reads:
            if access.tensor is tensor:
                match = _match_windows(access.indices[dim], consumer.state.computation)
                if match is None:
                    return None
                windows.append(match[1])
    first, step = min(each.first for each in windows), windows[0].step
    width = max(each.first + each.width for each in windows) - first
    count = max(each.count for each in windows)
    same_step = all(each.step == step for each in windows)
    if not same_step or width >= step or count * width > LARGEST_FRACTION * tensor.shape[dim]:
        return None
    return _Windows(first, step, width, count)


def _match_windows(index: Expr, computation: Computation) -> tuple[Axis, _Windows] | None:
    """The axis that moves from window to window, and the windows; None if the index has no such axis."""
    affine = as_affine(index)
    if affine is None:
        return None
    outer = max(affine.coefficients, key=lambda axis: affine.coefficients[axis], default=None)
    if outer is None or outer not in computation.axes or outer.start:
        return None
    step = affine.coefficients[outer]
    rest = affine.plus(type(affine)(0, {outer: step}), -1)
    low, high = rest.bounds()
    return (outer, _Windows(low, step, high - low + 1, outer.extent)) if step > 1 else None


def _split_dim(stage: EditedStage, dim: int, windows: _Windows) -> None:
    """Split a dimension of a stage, its tensor and all reads of it into windows and points in them."""
    old, axis = stage.tensor, stage.state.computation.axes[dim]
    window, within = Axis(f"{axis.name}w", windows.count), Axis(f"{axis.name}r", windows.width)
    index: Expr = AxisRef(window) * windows.step + AxisRef(within) + windows.first
    new = replace_axis(stage.state.computation, dim, (window, within), index)
    tensor = Tensor(old.name, new.shape, old.dtype, new)
    consumers = stage.schedule.consumers(old)
    stage.put(with_computation(new, (tensor,)))
    for consumer in consumers:
        again = _with_split_reads(consumer.state.computation, old, tensor, dim, windows)
        consumer.put(with_computation(again, consumer.state.tensors))


def _with_split_reads(consumer: Computation, old: Tensor, new: Tensor, dim: int, windows: _Windows) -> Computation:
    """The computation with reads of a tensor replaced by reads of the one with the split dimension."""

    def at(read: Read) -> Read:
        match = _match_windows(read.indices[dim], consumer)
        assert match is not None, f"{consumer.name} reads {old.name} in no windows"
        lead: Expr = AxisRef(match[0])
        inside = simplified_index(read.indices[dim] - lead * windows.step - windows.first)
        return Read(new, (*read.indices[:dim], lead, inside, *read.indices[dim + 1 :]))

    return consumer.mapped(lambda expr: rewrite_reads(expr, old, at))


def _insert_border(schedule: Edit, stage: EditedStage, access: ReadAccess, beyond: list[tuple[int, int]]) -> None:
    """Insert a stage that pads a tensor, or widen the border if the tensor already is such a padding."""
    old = access.tensor
    owner = schedule.producer(old)
    wider = owner is not None and is_unscheduled(owner) and is_padding(owner) and schedule.consumers(old) == [stage]
    names = (
        [f"i{n}" for n in range(old.ndim)] if owner is None else [axis.name for axis in owner.state.computation.axes]
    )
    axes = tuple(
        Axis(name, extent + before + after)
        for name, extent, (before, after) in zip(names, old.shape, beyond, strict=True)
    )
    points: tuple[Expr, ...] = tuple(AxisRef(axis) - before for axis, (before, _) in zip(axes, beyond, strict=True))
    if wider:
        assert owner is not None
        own = owner.state.computation
        shifted: Mapping[Axis, Expr] = dict(zip(own.axes, points, strict=True))
        bodies = own.mapped(lambda expr: rewrite_indices(rewrite(expr, axes=shifted), simplified_index)).bodies
        conditions = [part for access in own.reads for guard in access.guards for part in guards_of(*guard)]
        guards = [
            guard
            for axis, guard, added in _border_guards(axes, old, beyond)
            if not _exclude(own.axes[axes.index(axis)], conditions, added)
        ]
        bodies = (_guarded(guards, bodies[0]),)
        name = own.name
    else:
        bodies = (_guarded([guard for _, guard, _ in _border_guards(axes, old, beyond)], Read(old, points)),)
        name = fresh_name(schedule, f"{old.name}.border")
    new = Computation(name, axes, (), bodies)
    border = new.outputs[0]
    if wider:
        assert owner is not None
        owner.put(with_computation(new, (border,)))
    else:
        schedule.insert(initial_state(new), before=stage)
    indices = tuple(
        simplified_index(index + before) if before else index
        for index, (before, _) in zip(access.indices, beyond, strict=True)
    )
    _replace_read(stage, access.node, Read(border, indices))


def _replace_read(stage: EditedStage, node: Read, new: Read) -> None:
    computation = stage.state.computation
    marker = Tensor(new.tensor.name, new.tensor.shape, new.tensor.dtype, new.tensor.computation)
    redirected = redirect_single_reads(computation, {node: marker})
    again = redirected.mapped(lambda expr: rewrite_reads(expr, marker, lambda _: new))
    stage.put(with_computation(again, stage.state.tensors))


def _guarded(guards: list[Expr], value: Expr) -> Expr:
    """The value if all guards hold, else zero."""
    if not guards:
        return value
    condition = guards[0]
    for each in guards[1:]:
        condition = condition & each
    return select(condition, value, 0)


def _border_guards(
    axes: tuple[Axis, ...], tensor: Tensor, beyond: list[tuple[int, int]]
) -> Iterator[tuple[Axis, Expr, range]]:
    """Each axis with a border, the guard that is false in the border, and the indices of the border in the tensor."""
    for axis, extent, (before, after) in zip(axes, tensor.shape, beyond, strict=True):
        if before:
            yield axis, AxisRef(axis) >= before, range(-before, 0)
        if after:
            yield axis, AxisRef(axis) < extent + before, range(extent, extent + after)


def _exclude(axis: Axis, conditions: Sequence[Guard], added: range) -> bool:
    """Whether conditions on a single axis are false for all of a border.

    Those of a range are; one for every other pixel holds beyond the bounds, too.
    """
    inside = np.asarray(added)
    for condition, holds in conditions:
        if axes_of(condition) == (axis,) and not reads_data(condition):
            inside = inside[np.broadcast_to(np.asarray(evaluate(condition, {axis: inside})) == holds, inside.shape)]
    return not len(inside)


__all__ = ["insert_borders", "shrink_to_windows"]
