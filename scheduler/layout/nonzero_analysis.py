"""Which cells of a tensor may hold anything but zeros, which add nothing to a sum of products.

Said for each dimension by itself, as conditions of padding are: a cell holds data only if its index of every dimension
is one of those. So rows and columns of a border are known, and gaps between the pixels of a transposed convolution,
also behind copies.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Computation, Tensor, evaluate
from lathe.frontend.arith.conditions import guards_of
from lathe.frontend.arith.strip_casts import constant_value, skip_casts
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Select, axes_of, reads_data
from lathe.scheduler.rewriting.matchers import is_plain_read

HeldCells: TypeAlias = tuple[bytes | None, ...]
"""For each dimension a byte for each index, 1 if cells there may hold data; None: all of them may."""

LARGEST = 1 << 20
"""Points of one index that are looked at; of more all are taken to read data."""


class DataCells:
    """``data_cells`` of all tensors of a program, each worked out once.

    ``computation_of`` gives what makes a tensor, None for an input.
    """

    def __init__(self, computation_of: Callable[[Tensor], Computation | None]) -> None:
        self.computation_of = computation_of
        self.known: dict[Tensor, HeldCells | None] = {}

    def __call__(self, tensor: Tensor) -> HeldCells | None:
        """The cells of a tensor that may hold anything but 0; None if all may."""
        if tensor not in self.known:
            self.known[tensor] = None  # of what is copied in a circle nothing is known
            computation = self.computation_of(tensor)
            if computation is not None:
                self.known[tensor] = data_cells(computation, self)
        return self.known[tensor]


def data_cells(computation: Computation, cells_of: Callable[[Tensor], HeldCells | None]) -> HeldCells | None:
    """The cells of what a computation makes that may hold anything but 0; None if all may.

    ``cells_of`` says the same of what it reads.
    """
    if len(computation.bodies) > 1 or computation.where is not None:
        return None
    value = skip_casts(computation.bodies[0])
    held = {axis: np.ones(axis.extent, np.bool_) for axis in computation.axes if axis.extent <= LARGEST}
    while isinstance(value, Select):
        then = constant_value(value.otherwise) == 0
        if reads_data(value.condition) or not (then or constant_value(value.then) == 0):
            break
        for condition, holds in guards_of(value.condition, then):
            axis = _only(axes_of(condition))
            if axis in held:
                held[axis] &= evaluate(condition, {axis: _values(axis)}) == holds
        value = skip_casts(value.then if then else value.otherwise)
    if is_plain_read(value):
        for index, cells in zip(value.indices, cells_of(value.tensor) or (), strict=False):
            axis = _only(axes_of(index))
            if cells is not None and axis in held:
                read = np.asarray(evaluate(index, {axis: _values(axis)}))
                inside = (read >= 0) & (read < len(cells))
                held[axis] &= inside & np.frombuffer(cells, np.bool_)[np.where(inside, read, 0)]
    if all(mask.all() for mask in held.values()):
        return None
    masks = (held.get(axis) for axis in computation.axes)
    return tuple(None if mask is None or mask.all() else mask.tobytes() for mask in masks)


def _only(axes: Sequence[Axis]) -> Axis | None:
    return axes[0] if len(axes) == 1 else None


def _values(axis: Axis) -> NDArray[np.int64]:
    return np.arange(axis.start, axis.start + axis.extent)


def cells_within(cells: HeldCells | None, low: tuple[int, ...], extent: tuple[int, ...]) -> HeldCells | None:
    """The same of a box: a byte for each index from its first one on. All may hold data beside the tensor."""
    if cells is None or len(cells) != len(extent):
        return None
    found: list[bytes | None] = []
    for each, first, count in zip(cells, low, extent, strict=True):
        part = None if each is None else each[first : first + count]
        found.append(None if part is None or first < 0 or len(part) < count or all(part) else part)
    return tuple(found) if any(each is not None for each in found) else None


def share_with_data(indices: Sequence[Expr], cells: HeldCells | None) -> float:
    """Which part of all points of the indices' axes reads cells that may hold data."""
    share = 1.0
    for index, held in zip(indices, cells or [None] * len(indices), strict=True):
        axes = axes_of(index)
        if held is None or prod(axis.extent for axis in axes) > LARGEST:
            continue
        shape = [axis.extent for axis in axes]
        grids = np.indices(shape, np.int64, sparse=True)
        env = {axis: axis.start + grid for axis, grid in zip(axes, grids, strict=True)}
        read = np.broadcast_to(np.asarray(evaluate(index, env)), shape)
        share *= float(np.frombuffer(held, np.bool_)[read].mean())
    return share
