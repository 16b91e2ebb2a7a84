"""Structural sparsity: which indices of a tensor may hold non-zeros, so that GEMM can skip the zeros.

The result is separable: a mask for each dimension, and an element may be non-zero only if every one of its indices is
in its mask. That covers borders of padding and the zeros between the pixels of a dilated input, also through copies.
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
"""For each dimension a byte per index, 1 if elements there may be non-zero; None: all of them may."""

LARGEST = 1 << 20
"""The most points of one index expression that are evaluated; beyond that, all are taken for non-zero."""


class NonzeroAnalysis:
    """``nonzero_masks`` of all tensors of a program, cached.

    ``computation_of`` gives the computation of a tensor, None for an input.
    """

    def __init__(self, computation_of: Callable[[Tensor], Computation | None]) -> None:
        self.computation_of = computation_of
        self.known: dict[Tensor, HeldCells | None] = {}

    def __call__(self, tensor: Tensor) -> HeldCells | None:
        """The indices of a tensor that may hold non-zeros; None if all may."""
        if tensor not in self.known:
            self.known[tensor] = None  # conservative where copies form a recurrence
            computation = self.computation_of(tensor)
            if computation is not None:
                self.known[tensor] = nonzero_masks(computation, self)
        return self.known[tensor]


def nonzero_masks(computation: Computation, cells_of: Callable[[Tensor], HeldCells | None]) -> HeldCells | None:
    """The indices of the result of a computation that may hold non-zeros; None if all may.

    ``cells_of`` gives the same for its operands.
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
    """The masks restricted to a box, indexed from its first index on; a side that leaves the tensor has none."""
    if cells is None or len(cells) != len(extent):
        return None
    masks: list[bytes | None] = []
    for each, first, count in zip(cells, low, extent, strict=True):
        part = None if each is None else each[first : first + count]
        masks.append(None if part is None or first < 0 or len(part) < count or all(part) else part)
    return tuple(masks) if any(each is not None for each in masks) else None


def nonzero_fraction(indices: Sequence[Expr], cells: HeldCells | None) -> float:
    """The fraction of all points of the indices' axes at which elements that may be non-zero are read."""
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
