"""Dimensions of a stored tensor along which all slices live alike, so that one of them tells for all.

A slice are the values at one index of a dimension. Values of different slices never share a cell if that index alone
decides some index of the cell. And slices live alike if whatever moves the dimension is inside all loops that chunks
share: within an iteration of those, a chunk's uses of the buffer come one after the other, and in each slice in the
same order, since a step of the dimension takes each of them by the same time.
"""

from collections.abc import Sequence

import numpy as np

from lathe.frontend import evaluate
from lathe.frontend.expr.nodes import AxisRef, axes_of
from lathe.scheduler.legality.events import Use
from lathe.scheduler.loop_ir.timestamps import Occurrence
from lathe.scheduler.query_results import QueryBudgetExceeded
from lathe.scheduler.schedule_ir.storage import Storage


def alike_dimensions(storage: Storage, writes: Sequence[Use], reads: Sequence[Use]) -> list[int]:
    """The dimensions of a tensor along which one slice tells for all, given all its uses."""
    involved = list(dict.fromkeys(use.occurrence for use in (*writes, *reads)))
    depth = {each: max((each.shared(other) for other in involved if other is not each), default=0) for each in involved}
    found: list[int] = []
    for dim, axis in enumerate(storage.axes):
        if axis.extent == 1 or not _apart(storage, dim):
            continue
        inside = all(_moved_inside(use, dim, axis.extent, depth[use.occurrence]) for use in (*writes, *reads))
        if inside and all(_at_once(use, writes, dim) for use in reads):
            found.append(dim)
    return found


def _apart(storage: Storage, dim: int) -> bool:
    """Whether values at different indices of a dimension never share a cell, whatever their other indices."""
    axis = storage.axes[dim]
    own = [index for index in storage.indices if axis in axes_of(index)]
    if not own or any(set(axes_of(index)) != {axis} for index in own):
        return False
    values = {axis: np.arange(axis.extent, dtype=np.int64)}
    cells = np.stack([np.broadcast_to(evaluate(index, values), (axis.extent,)) for index in own])
    return len({tuple(cell) for cell in cells.T.tolist()}) == axis.extent


def _moved_inside(use: Use, dim: int, extent: int, depth: int) -> bool:
    """Whether loops inside those that chunks share move a dimension, by themselves, through all its indices."""
    group = next(each for each in use.groups if dim in each.dims)
    outermost = max([depth, *(n + 1 for n in use.tag.weights)])
    if group.dims != [dim] or group.conditions or any(n < outermost for n in group.loops):
        return False
    try:
        part = use.part(group)
    except QueryBudgetExceeded:
        return False
    return len(part.values) == extent == len(np.unique(part.values))


def _at_once(use: Use, writes: Sequence[Use], dim: int) -> bool:
    """Whether a read by a chunk that also writes moves a dimension as the write does."""
    beside: list[Occurrence] = [write.occurrence for write in writes if write.occurrence is use.occurrence]
    index = use.indices[dim]
    computation = use.occurrence.chunk.placement.state.computation
    return not beside or (isinstance(index, AxisRef) and index.axis is computation.axes[dim])
