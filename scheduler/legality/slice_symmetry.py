"""Dimensions of a stored tensor along which all slices have the same liveness, so that checking one of them suffices.

A slice is the values at one index of a dimension. Values of different slices never share a cell if that index alone
determines some index of the cell. Slices have the same liveness if all loops that move the dimension are inside all
loops that chunks share: then, within an iteration of the shared loops, the accesses of a chunk come in the same order
in each slice, since one step along the dimension delays all of them equally.
"""

from collections.abc import Sequence

import numpy as np

from lathe.frontend import evaluate
from lathe.frontend.expr.nodes import AxisRef, axes_of
from lathe.scheduler.legality.events import Use
from lathe.scheduler.loop_ir.timestamps import Occurrence
from lathe.scheduler.query_results import QueryBudgetExceeded
from lathe.scheduler.schedule_ir.storage import Storage


def symmetric_dimensions(storage: Storage, writes: Sequence[Use], reads: Sequence[Use]) -> list[int]:
    """The dimensions of a tensor along which checking one slice suffices, given all its accesses."""
    involved = list(dict.fromkeys(use.occurrence for use in (*writes, *reads)))
    depth = {each: max((each.shared(other) for other in involved if other is not each), default=0) for each in involved}
    found: list[int] = []
    for dim, axis in enumerate(storage.axes):
        if axis.extent == 1 or not _never_shares_cells(storage, dim):
            continue
        inside = all(_moved_inside(use, dim, axis.extent, depth[use.occurrence]) for use in (*writes, *reads))
        if inside and all(_moves_with_writes(use, writes, dim) for use in reads):
            found.append(dim)
    return found


def _never_shares_cells(storage: Storage, dim: int) -> bool:
    """Whether values at different indices of a dimension never share a cell, whatever their other indices."""
    axis = storage.axes[dim]
    own = [index for index in storage.indices if axis in axes_of(index)]
    if not own or any(set(axes_of(index)) != {axis} for index in own):
        return False
    values = {axis: np.arange(axis.extent, dtype=np.int64)}
    cells = np.stack([np.broadcast_to(evaluate(index, values), (axis.extent,)) for index in own])
    return len({tuple(cell) for cell in cells.T.tolist()}) == axis.extent


def _moved_inside(use: Use, dim: int, extent: int, depth: int) -> bool:
    """Whether only loops inside those that chunks share move a dimension, through all its indices."""
    group = next(each for each in use.groups if dim in each.dims)
    outermost = max([depth, *(n + 1 for n in use.tag.weights)])
    if group.dims != [dim] or group.conditions or any(n < outermost for n in group.loops):
        return False
    try:
        part = use.part(group)
    except QueryBudgetExceeded:
        return False
    return len(part.values) == extent == len(np.unique(part.values))


def _moves_with_writes(use: Use, writes: Sequence[Use], dim: int) -> bool:
    """Whether a read by a chunk that also writes moves a dimension as the write does."""
    own_writes: list[Occurrence] = [write.occurrence for write in writes if write.occurrence is use.occurrence]
    index = use.indices[dim]
    computation = use.occurrence.chunk.placement.state.computation
    return not own_writes or (isinstance(index, AxisRef) and index.axis is computation.axes[dim])
