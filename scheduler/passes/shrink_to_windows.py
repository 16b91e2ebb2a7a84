"""Elements between the windows in which a tensor is read are not made.

A 1×1 convolution by 3 behind a depthwise one of 3×3 by 2 reads three of six rows of the layer before. Where all reads
of a dimension are at ``step · n + first + r`` with ``0 <= r < width < step``, the tensor has two dimensions ``[n, r]``
instead, and so does its maker::

    T[y] = value(y)                                 T[n, r] = value(step · n + first + r)
    R[m] = sum over r of T[step · m + first + r]    R[m] = sum over r of T[m, r]

The first window may begin before the first element, and the last end behind the last: what stands there is made, and
nobody reads it. What is read for it beyond the end of another tensor is zeros of a border.
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
from lathe.scheduler.rewriting.rewrite import reads_redirected, rewrite, rewrite_indices, rewrite_reads
from lathe.scheduler.rewriting.strided_access import over_axes
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.stage import initial_state
from lathe.scheduler.schedule_ir.unique_names import fresh_name
from lathe.scheduler.tiling.fusion_groups import is_padding

LEFT = 0.85
"""The part of a dimension that windows have at most, where it is cut: more loops make code longer."""


@dataclass(frozen=True)
class _Windows:
    """``count`` windows of ``width``, ``step`` apart, from ``first`` on."""

    first: int
    step: int
    width: int
    count: int


def drop_between_windows(stage: EditedStage) -> bool:
    """Leave out, in place, what an untouched stage makes between windows; whether there is any along a dimension."""
    found = False
    dim = 0
    while dim < stage.tensor.ndim:
        windows = _windows(stage, dim)
        if windows is not None:
            _cut(stage, dim, windows)
            found = True
        dim += 1 if windows is None else 2
    return found


def put_borders(schedule: Edit, stage: EditedStage) -> None:
    """Put borders of zeros, in place, around what a stage reads beyond the ends of a tensor without a condition."""
    for access in stage.state.computation.reads:
        bounds = [] if access.guards else _bounds(access)
        beyond = [
            (max(-low, 0), max(high - extent + 1, 0))
            for (low, high), extent in zip(bounds, access.tensor.shape, strict=False)
        ]
        if any(map(any, beyond)):
            _put_border(schedule, stage, access, beyond)


def _bounds(access: ReadAccess) -> list[tuple[int, int]]:
    """The first and the last index along each dimension."""
    found = [as_affine(index) for index in access.indices]
    return [(0, 0) if each is None else each.bounds() for each in found]


def _windows(stage: EditedStage, dim: int) -> _Windows | None:
    """The windows in which all readers read along a dimension, if they leave enough out."""
    schedule, tensor = stage.schedule, stage.tensor
    readers = schedule.readers(tensor)
    if tensor in schedule.outputs or not readers or not all(map(is_unscheduled, readers)):
        return None
    found: list[_Windows] = []
    for reader in readers:
        for access in reader.state.computation.reads:
            if access.tensor is tensor:
                parts = _parts(access.indices[dim], reader.state.computation)
                if parts is None:
                    return None
                found.append(parts[1])
    first, step = min(each.first for each in found), found[0].step
    width = max(each.first + each.width for each in found) - first
    count = max(each.count for each in found)
    alike = all(each.step == step for each in found)
    if not alike or width >= step or count * width > LEFT * tensor.shape[dim]:
        return None
    return _Windows(first, step, width, count)


def _parts(index: Expr, computation: Computation) -> tuple[Axis, _Windows] | None:
    """The axis that leads from window to window, and the windows; None where an index has no such axis."""
    affine = as_affine(index)
    if affine is None:
        return None
    leading = max(affine.coefficients, key=lambda axis: affine.coefficients[axis], default=None)
    if leading is None or leading not in computation.axes or leading.start:
        return None
    step = affine.coefficients[leading]
    rest = affine.plus(type(affine)(0, {leading: step}), -1)
    low, high = rest.bounds()
    return (leading, _Windows(low, step, high - low + 1, leading.extent)) if step > 1 else None


def _cut(stage: EditedStage, dim: int, windows: _Windows) -> None:
    """Let a dimension be two, of a stage, its tensor and all reads of this."""
    old, axis = stage.tensor, stage.state.computation.axes[dim]
    window, within = Axis(f"{axis.name}w", windows.count), Axis(f"{axis.name}r", windows.width)
    place: Expr = AxisRef(window) * windows.step + AxisRef(within) + windows.first
    new = over_axes(stage.state.computation, dim, (window, within), place)
    tensor = Tensor(old.name, new.shape, old.dtype, new)
    readers = stage.schedule.readers(old)
    stage.put(with_computation(new, (tensor,)))
    for reader in readers:
        again = _reading_cut(reader.state.computation, old, tensor, dim, windows)
        reader.put(with_computation(again, reader.state.tensors))


def _reading_cut(reader: Computation, old: Tensor, new: Tensor, dim: int, windows: _Windows) -> Computation:
    """The computation reading, instead of a tensor, one of which a dimension has become two."""

    def at(read: Read) -> Read:
        parts = _parts(read.indices[dim], reader)
        assert parts is not None, f"{reader.name} reads {old.name} in no windows"
        lead: Expr = AxisRef(parts[0])
        inside = simplified_index(read.indices[dim] - lead * windows.step - windows.first)
        return Read(new, (*read.indices[:dim], lead, inside, *read.indices[dim + 1 :]))

    return reader.mapped(lambda expr: rewrite_reads(expr, old, at))


def _put_border(schedule: Edit, stage: EditedStage, access: ReadAccess, beyond: list[tuple[int, int]]) -> None:
    """A border around a tensor, as a stage of its own, or a wider one where that is what the tensor is."""
    old = access.tensor
    maker = schedule.maker(old)
    wider = maker is not None and is_unscheduled(maker) and is_padding(maker) and schedule.readers(old) == [stage]
    names = (
        [f"i{n}" for n in range(old.ndim)] if maker is None else [axis.name for axis in maker.state.computation.axes]
    )
    axes = tuple(
        Axis(name, extent + before + behind)
        for name, extent, (before, behind) in zip(names, old.shape, beyond, strict=True)
    )
    places: tuple[Expr, ...] = tuple(AxisRef(axis) - before for axis, (before, _) in zip(axes, beyond, strict=True))
    if wider:
        assert maker is not None
        own = maker.state.computation
        moved: Mapping[Axis, Expr] = dict(zip(own.axes, places, strict=True))
        bodies = own.mapped(lambda expr: rewrite_indices(rewrite(expr, axes=moved), simplified_index)).bodies
        known = [part for access in own.reads for guard in access.guards for part in guards_of(*guard)]
        guards = [
            guard
            for axis, guard, added in _inside(axes, old, beyond)
            if not _are_zeros(own.axes[axes.index(axis)], known, added)
        ]
        bodies = (_under(guards, bodies[0]),)
        name = own.name
    else:
        bodies = (_under([guard for _, guard, _ in _inside(axes, old, beyond)], Read(old, places)),)
        name = fresh_name(schedule, f"{old.name}.border")
    new = Computation(name, axes, (), bodies)
    border = new.outputs[0]
    if wider:
        assert maker is not None
        maker.put(with_computation(new, (border,)))
    else:
        schedule.insert(initial_state(new), before=stage)
    indices = tuple(
        simplified_index(index + before) if before else index
        for index, (before, _) in zip(access.indices, beyond, strict=True)
    )
    _read_instead(stage, access.node, Read(border, indices))


def _read_instead(stage: EditedStage, node: Read, instead: Read) -> None:
    computation = stage.state.computation
    marker = Tensor(instead.tensor.name, instead.tensor.shape, instead.tensor.dtype, instead.tensor.computation)
    redirected = reads_redirected(computation, {node: marker})
    again = redirected.mapped(lambda expr: rewrite_reads(expr, marker, lambda _: instead))
    stage.put(with_computation(again, stage.state.tensors))


def _under(guards: list[Expr], value: Expr) -> Expr:
    """A value where conditions hold, and zero elsewhere."""
    if not guards:
        return value
    condition = guards[0]
    for each in guards[1:]:
        condition = condition & each
    return select(condition, value, 0)


def _inside(
    axes: tuple[Axis, ...], tensor: Tensor, beyond: list[tuple[int, int]]
) -> Iterator[tuple[Axis, Expr, range]]:
    """Axes along which a border is added, the conditions that leave it out, and the indices of the tensor there."""
    for axis, extent, (before, behind) in zip(axes, tensor.shape, beyond, strict=True):
        if before:
            yield axis, AxisRef(axis) >= before, range(-before, 0)
        if behind:
            yield axis, AxisRef(axis) < extent + before, range(extent, extent + behind)


def _are_zeros(axis: Axis, conditions: Sequence[Guard], added: range) -> bool:
    """Whether conditions on an axis by itself leave out all of a border.

    Those of a range do; every other pixel is there beyond the ends, too.
    """
    left = np.asarray(added)
    for condition, holds in conditions:
        if axes_of(condition) == (axis,) and not reads_data(condition):
            left = left[np.broadcast_to(np.asarray(evaluate(condition, {axis: left})) == holds, left.shape)]
    return not len(left)


__all__ = ["drop_between_windows", "put_borders"]
