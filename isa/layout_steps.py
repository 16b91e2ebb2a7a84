"""The steps that take an array to the layout of a schedule: its elements in another order, and cells added to it.

A map such as ``[(i + 2) // 8, (i + 2) % 8]`` widens the axis, cuts it into digits and puts these in order. What the
added cells hold is a constant, a copy of other cells, or nothing that anybody relies on. Kernels of a depthwise
convolution become diagonals of matrices, so that a matrix product multiplies each channel by its own; where lanes hold
images, each has the same weight, so many times.
"""

from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Reordering:
    """The elements in another order: seen as ``view``, its dimensions taken in ``order``, the result as ``shape``."""

    view: tuple[int, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        """The array in the new order; a view of it where NumPy can make one."""
        return array.reshape(self.view).transpose(self.order).reshape(self.shape)

    def undo(self, array: NDArray[Any]) -> NDArray[Any]:
        """The array of shape ``view`` that ``apply`` turns into this one."""
        turned = array.reshape([self.view[place] for place in self.order])
        return turned.transpose(np.argsort(self.order)).reshape(self.view)

    @property
    def sizes(self) -> tuple[int, int]:
        """How many elements go in and come out; −1 where it is no permutation of dimensions."""
        turned = sorted(self.order) == list(range(len(self.view)))
        return (prod(self.view), prod(self.shape)) if turned else (-1, -1)


@dataclass(frozen=True, slots=True)
class Widening:
    """The elements seen as ``view``, with so many cells before and behind each dimension (``widths``).

    The new cells hold ``value``; with None, nothing that may be relied on (they are 0).
    """

    view: tuple[int, ...]
    widths: tuple[tuple[int, int], ...]
    value: int | None = None

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        """The array with the cells around it."""
        return np.pad(array.reshape(self.view), self.widths, constant_values=self.value or 0)

    def undo(self, array: NDArray[Any]) -> NDArray[Any]:
        """What is inside the cells around it; a view."""
        wide = array.reshape([n + sum(width) for n, width in zip(self.view, self.widths, strict=True)])
        return wide[tuple(slice(before, before + n) for n, (before, _) in zip(self.view, self.widths, strict=True))]

    @property
    def sizes(self) -> tuple[int, int]:
        """How many elements go in and come out; −1 for widths of another number of dimensions, or below 0."""
        if len(self.widths) != len(self.view) or any(width < 0 for pair in self.widths for width in pair):
            return -1, -1
        wide = prod(n + sum(width) for n, width in zip(self.view, self.widths, strict=True))
        return prod(self.view), wide


@dataclass(frozen=True, slots=True)
class Filling:
    """Cells of an array of ``size`` elements, by row-major number, that hold other cells of it or numbers.

    Cell ``cells[n]`` holds what cell ``sources[n]`` does, or ``values[n]`` where that is −1.
    """

    size: int
    cells: tuple[int, ...]
    sources: tuple[int, ...]
    values: tuple[int, ...]

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        """The array with these cells filled; a new one."""
        flat = array.reshape(-1).copy()
        sources = np.asarray(self.sources, np.int64)
        values = np.asarray(self.values, np.int64).astype(array.dtype)
        flat[np.asarray(self.cells, np.int64)] = np.where(sources < 0, values, flat[sources])
        return flat.reshape(array.shape)

    def undo(self, array: NDArray[Any]) -> NDArray[Any]:
        """The array itself: who takes the cells around away does not look at them."""
        return array

    @property
    def sizes(self) -> tuple[int, int]:
        """How many elements go in and come out; −1 where a cell is outside, or the lists differ in length."""
        inside = all(0 <= cell < self.size for cell in self.cells) and all(-1 <= s < self.size for s in self.sources)
        alike = len(self.cells) == len(self.sources) == len(self.values)
        return (self.size, self.size) if inside and alike else (-1, -1)


@dataclass(frozen=True, slots=True)
class Reversing:
    """The elements seen as ``view``, some of its dimensions (``axes``) counted from their ends."""

    view: tuple[int, ...]
    axes: tuple[int, ...]

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        """The array with these dimensions reversed; a view."""
        return np.flip(array.reshape(self.view), self.axes)

    def undo(self, array: NDArray[Any]) -> NDArray[Any]:
        """The same again."""
        return self.apply(array)

    @property
    def sizes(self) -> tuple[int, int]:
        """How many elements go in and come out; −1 where a dimension is none of the view's, or stands twice."""
        inside = all(0 <= axis < len(self.view) for axis in self.axes) and len(set(self.axes)) == len(self.axes)
        return (prod(self.view), prod(self.view)) if inside else (-1, -1)


@dataclass(frozen=True, slots=True)
class Diagonal:
    """The elements seen as ``view``; dimension ``dim`` spread over the diagonals of matrices of ``rows`` × ``cols``.

    With ``n = min(rows, cols)``, value ``c`` of the dimension goes to block ``c // n``, row ``c % rows`` and column
    ``c % cols``; all other cells are 0. The blocks stand in the place of the dimension, rows and columns at the end.
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
        """The array with zeros beside the diagonals; a new one."""
        spread = np.zeros(self.shape, array.dtype)
        np.moveaxis(spread, self.dim, -3)[self._cells] = np.moveaxis(array.reshape(self.view), self.dim, -1)
        return spread

    def undo(self, array: NDArray[Any]) -> NDArray[Any]:
        """What is on the diagonals."""
        blocks = np.moveaxis(array.reshape(self.shape), self.dim, -3)
        return np.moveaxis(blocks[self._cells], -1, self.dim)

    @property
    def _cells(self) -> tuple[Any, ...]:
        """Block, row and column of each value of the dimension, as an index of the last three dimensions."""
        value = np.arange(self.view[self.dim])
        return ..., value // min(self.rows, self.cols), value % self.rows, value % self.cols

    @property
    def sizes(self) -> tuple[int, int]:
        """How many elements go in and come out; −1 where the dimension is none of the view's, or a side is empty."""
        possible = 0 <= self.dim < len(self.view) and self.rows > 0 and self.cols > 0
        return (prod(self.view), prod(self.shape)) if possible else (-1, -1)


@dataclass(frozen=True, slots=True)
class Repeating:
    """The elements seen as ``view``, ``count`` times, along a new dimension before all others."""

    view: tuple[int, ...]
    count: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return self.count, *self.view

    def apply(self, array: NDArray[Any]) -> NDArray[Any]:
        """The array so many times; a view of it, to be read only."""
        return np.broadcast_to(array.reshape(self.view), self.shape)

    def undo(self, array: NDArray[Any]) -> NDArray[Any]:
        """What stands there first; a view."""
        first: NDArray[Any] = array.reshape(self.shape)[0]
        return first

    @property
    def sizes(self) -> tuple[int, int]:
        """How many elements go in and come out; −1 where there would be none."""
        return (prod(self.view), self.count * prod(self.view)) if self.count > 0 else (-1, -1)


LayoutStep: TypeAlias = Reordering | Widening | Filling | Reversing | Diagonal | Repeating


def shape_after(step: LayoutStep) -> tuple[int, ...]:
    """The shape of what a step leaves."""
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
    """Plain values for JSON."""
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
