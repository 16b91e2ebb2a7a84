"""Transformations of an array on its way to a layout: permuting its elements, and adding cells to it.

A map such as ``[(i + 2) // 8, (i + 2) % 8]`` pads the axis, splits it into digits and permutes these. Added cells hold
a constant, a copy of other cells, or an undefined value. Kernels of a depthwise convolution become diagonals of
matrices, so that a GEMM multiplies each channel by its own kernel; where lanes hold images, each weight is repeated for
all of them.
"""

from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Reordering:
    """A permutation of elements: reshaped to ``view``, transposed by ``order``, reshaped to ``shape``."""

    view: tuple[int, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        """The permuted array; a view where NumPy can make one."""
        return array.reshape(self.view).transpose(self.order).reshape(self.shape)

    def undo(self, array: NDArray[Any]) -> NDArray[Any]:
        """The array of shape ``view`` that ``apply`` maps to this one."""
        permuted = array.reshape([self.view[dim] for dim in self.order])
        return permuted.transpose(np.argsort(self.order)).reshape(self.view)

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of elements before and after; −1 if ``order`` is not a permutation of the dimensions."""
        valid = sorted(self.order) == list(range(len(self.view)))
        return (prod(self.view), prod(self.shape)) if valid else (-1, -1)


@dataclass(frozen=True, slots=True)
class Widening:
    """Padding: reshaped to ``view``, with ``widths`` (before, after) cells added to each dimension.

    The new cells hold ``value``; with None, an undefined value (0 in practice).
    """

    view: tuple[int, ...]
    widths: tuple[tuple[int, int], ...]
    value: int | None = None

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        """The padded array."""
        return np.pad(array.reshape(self.view), self.widths, constant_values=self.value or 0)

    def undo(self, array: NDArray[Any]) -> NDArray[Any]:
        """A view of the array without the padding."""
        wide = array.reshape([n + sum(width) for n, width in zip(self.view, self.widths, strict=True)])
        return wide[tuple(slice(before, before + n) for n, (before, _) in zip(self.view, self.widths, strict=True))]

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of elements before and after; −1 for widths of another number of dimensions, or below 0."""
        if len(self.widths) != len(self.view) or any(width < 0 for pair in self.widths for width in pair):
            return -1, -1
        wide = prod(n + sum(width) for n, width in zip(self.view, self.widths, strict=True))
        return prod(self.view), wide


@dataclass(frozen=True, slots=True)
class Filling:
    """Initialisation of cells in an array of ``size`` elements, by row-major index, with other cells or numbers.

    Cell ``cells[n]`` gets the value of cell ``sources[n]``, or ``values[n]`` where that is −1.
    """

    size: int
    cells: tuple[int, ...]
    sources: tuple[int, ...]
    values: tuple[int, ...]

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        """A new array with these cells filled."""
        flat = array.reshape(-1).copy()
        sources = np.asarray(self.sources, np.int64)
        values = np.asarray(self.values, np.int64).astype(array.dtype)
        flat[np.asarray(self.cells, np.int64)] = np.where(sources < 0, values, flat[sources])
        return flat.reshape(array.shape)

    def undo(self, array: NDArray[Any]) -> NDArray[Any]:
        """The array itself: undoing the padding drops the filled cells."""
        return array

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of elements before and after; −1 if a cell is out of range, or the lists differ in length."""
        inside = all(0 <= cell < self.size for cell in self.cells) and all(-1 <= s < self.size for s in self.sources)
        equal_length = len(self.cells) == len(self.sources) == len(self.values)
        return (self.size, self.size) if inside and equal_length else (-1, -1)


@dataclass(frozen=True, slots=True)
class Reversing:
    """Reversal: reshaped to ``view``, with the dimensions ``axes`` reversed."""

    view: tuple[int, ...]
    axes: tuple[int, ...]

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        """A view of the array with these dimensions reversed."""
        return np.flip(array.reshape(self.view), self.axes)

    def undo(self, array: NDArray[Any]) -> NDArray[Any]:
        """The inverse, which is the same reversal."""
        return self.apply(array)

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of elements before and after; −1 if a dimension is not in the view, or occurs twice."""
        inside = all(0 <= axis < len(self.view) for axis in self.axes) and len(set(self.axes)) == len(self.axes)
        return (prod(self.view), prod(self.view)) if inside else (-1, -1)


@dataclass(frozen=True, slots=True)
class Diagonal:
    """Embedding: reshaped to ``view``; dimension ``dim`` spread over the diagonals of ``rows`` × ``cols`` matrices.

    With ``n = min(rows, cols)``, index ``c`` of the dimension goes to block ``c // n``, row ``c % rows`` and column ``c
    % cols``; all other cells are 0. The blocks replace the dimension; rows and columns are appended.
    """

    view: tuple[int, ...]
    dim: int
    rows: int
    cols: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        blocks = -(-self.view[self.dim] // min(self.rows, self.cols))
        return (*self.view[: self.dim], blocks, *self.view[self.dim + 1 :], self.rows, self.cols)

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        """A new array with zeros off the diagonals."""
        spread = np.zeros(self.shape, array.dtype)
        np.moveaxis(spread, self.dim, -3)[self._cells] = np.moveaxis(array.reshape(self.view), self.dim, -1)
        return spread

    def undo(self, array: NDArray[Any]) -> NDArray[Any]:
        """The values on the diagonals."""
        blocks = np.moveaxis(array.reshape(self.shape), self.dim, -3)
        return np.moveaxis(blocks[self._cells], -1, self.dim)

    @property
    def _cells(self) -> tuple[Any, ...]:
        """Block, row and column of each index of the dimension, for indexing the last three dimensions."""
        value = np.arange(self.view[self.dim])
        return ..., value // min(self.rows, self.cols), value % self.rows, value % self.cols

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of elements before and after; −1 if ``dim`` is not in the view, or a side is empty."""
        valid = 0 <= self.dim < len(self.view) and self.rows > 0 and self.cols > 0
        return (prod(self.view), prod(self.shape)) if valid else (-1, -1)


@dataclass(frozen=True, slots=True)
class Repeating:
    """Broadcast: reshaped to ``view`` and repeated ``count`` times along a new leading dimension."""

    view: tuple[int, ...]
    count: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return self.count, *self.view

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        """The repeated array, a read-only view."""
        return np.broadcast_to(array.reshape(self.view), self.shape)

    def undo(self, array: NDArray[Any]) -> NDArray[Any]:
        """The first copy; a view."""
        first: NDArray[Any] = array.reshape(self.shape)[0]
        return first

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of elements before and after; −1 for a count below 1."""
        return (prod(self.view), self.count * prod(self.view)) if self.count > 0 else (-1, -1)


LayoutStep: TypeAlias = Reordering | Widening | Filling | Reversing | Diagonal | Repeating


def shape_after(step: LayoutStep) -> tuple[int, ...]:
    """The shape of a step's result."""
    match step:
        case Widening(view, widths):
            return tuple(n + sum(width) for n, width in zip(view, widths, strict=True))
        case Filling(size):
            return (size,)
        case Reversing(view):
            return view
        case Reordering(shape=shape) | Diagonal(shape=shape) | Repeating(shape=shape):
            return shape


def step_to_list(step: LayoutStep) -> list[Any]:
    """The step as plain values for JSON."""
    match step:
        case Reordering(view, order, shape):
            return [list(view), list(order), list(shape)]
        case Widening(view, widths, value):
            return ["widen", list(view), [list(width) for width in widths], value]
        case Filling(size, cells, sources, values):
            return ["fill", size, list(cells), list(sources), list(values)]
        case Reversing(view, axes):
            return ["reverse", list(view), list(axes)]
        case Diagonal(view, dim, rows, cols):
            return ["diagonal", list(view), dim, rows, cols]
        case Repeating(view, count):
            return ["repeat", list(view), count]


def step_from_list(values: list[Any]) -> LayoutStep:
    """The step that ``step_to_list`` wrote."""
    match values:
        case ["widen", view, widths, value]:
            return Widening(tuple(view), tuple((before, after) for before, after in widths), value)
        case ["fill", size, cells, sources, numbers]:
            return Filling(size, tuple(cells), tuple(sources), tuple(numbers))
        case ["reverse", view, axes]:
            return Reversing(tuple(view), tuple(axes))
        case ["diagonal", view, dim, rows, cols]:
            return Diagonal(tuple(view), dim, rows, cols)
        case ["repeat", view, count]:
            return Repeating(tuple(view), count)
    view, order, shape = values
    return Reordering(tuple(view), tuple(order), tuple(shape))
