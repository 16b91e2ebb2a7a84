"""Lowered tensors: a model's tensors in the layouts of tensor programs, row-major (plain) or NHWC (image).

A vector holds a block of channels. Images have padding channels up to whole blocks, so that tensors are contiguous
vectors, and no chunk of instructions has a remainder at the last channel. Weights and rescale factors of padding
channels are zero. An image of one row, (N, C, L), is (N, 1, L, C) in a program. ``layouts.py`` decides which tensors of
three or four dimensions are images.

A plain tensor may be a view (``axes``) of another one: reshaped or transposed without data movement.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Tensor, compute, select
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis
from lathe.networks.mixed_radix import Index, in_digits, regrouped

Array = NDArray[Any]
Shape = tuple[int, ...]
IMAGE_RANKS = (3, 4)


def padded_channels(channels: int, lanes: int) -> int:
    """The number of channels rounded up to whole blocks; less than half a block is not padded."""
    return channels if 2 * channels < lanes else -(-channels // lanes) * lanes


@dataclass(frozen=True, eq=False)
class Value:
    """A lowered tensor with the model's ``shape``.

    ``positions``: those of the model's channels in an image; None: in order, from 0 on. ``more``: byte planes of an
    int32 tensor above the lowest, which is ``tensor``. ``axes``: for each dimension of a plain tensor the axes of
    ``tensor`` that it is split into, the last one varying fastest; None: one axis for each dimension.
    """

    tensor: Tensor
    shape: Shape
    is_image: bool
    positions: Shape | None = None
    more: tuple[Tensor, ...] = ()
    axes: tuple[Shape, ...] | None = None

    @property
    def own_axes(self) -> tuple[Shape, ...]:
        """The axes of each dimension of a plain tensor."""
        return tuple((n,) for n in range(len(self.shape))) if self.axes is None else self.axes

    def digits(self, dimension: int) -> Shape:
        """The extents of a dimension's axes."""
        return tuple(self.tensor.shape[axis] for axis in self.own_axes[dimension])

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All byte planes."""
        return self.tensor, *self.more

    @property
    def image_shape(self) -> Shape:
        """The shape of an image as (N, C, H, W)."""
        return image_shape(self.shape)

    @property
    def width(self) -> int:
        """The number of channels with padding."""
        return self.tensor.shape[-1]

    def has_default_layout(self, lanes: int) -> bool:
        """Whether it has the layout of a newly computed tensor: channels in order, with the usual padding."""
        if not self.is_image:
            return self.axes is None
        return self.positions is None and self.width == padded_channels(self.shape[1], lanes)

    def at(self, indices: tuple[Expr, ...]) -> Expr:
        """The element at the model's indices; a select of several reads if channels are not contiguous."""
        if self.axes is not None:
            return self.read([Index((size,), (index,)) for size, index in zip(self.shape, indices, strict=True)])
        if not self.is_image:
            return self.tensor[indices]
        n, c, *rest = indices
        pixel: list[Expr | int] = [n, *rest] if len(rest) == 2 else [n, 0, *rest]
        if self.positions is None:
            return self.tensor[(*pixel, c)]
        value: Expr | None = None
        for first, end, position in reversed(self.runs()):
            read = self.tensor[(*pixel, c + (position - first) if position != first else c)]
            value = read if value is None else select(c < end, read, value)
        assert value is not None, "a tensor must have channels"
        return value

    def read(self, indices: Sequence[Index]) -> Expr:
        """The element of a plain tensor at the model's indices, each given as digits."""
        found: list[Expr | Axis | int] = [0] * self.tensor.ndim
        for index, axes in zip(indices, self.own_axes, strict=True):
            for axis, digit in zip(axes, in_digits(index, [self.tensor.shape[axis] for axis in axes]), strict=True):
                found[axis] = digit
        return self.tensor[tuple(found)]

    def reshaped(self, shape: Shape) -> "Value | None":
        """A view of a plain tensor with another shape; None if an axis would have to be split."""
        axes = [axis for dimension in self.own_axes for axis in dimension if self.tensor.shape[axis] > 1]
        groups = regrouped([self.tensor.shape[axis] for axis in axes], shape)
        if groups is None or self.more:
            return None
        return self.view(shape, tuple(tuple(axes[n] for n in group) for group in groups))

    def transposed(self, order: Shape) -> "Value":
        """A transposed view of a plain tensor."""
        return self.view(tuple(self.shape[n] for n in order), tuple(self.own_axes[n] for n in order))

    def view(self, shape: Shape, axes: tuple[Shape, ...]) -> "Value":
        """A view of the tensor as a plain one with these axes."""
        usual = shape == self.tensor.shape and axes == tuple((n,) for n in range(len(shape)))
        return Value(self.tensor, shape, is_image=False, axes=None if usual else axes)

    def runs(self) -> list[tuple[int, int, int]]:
        """Runs of contiguous channels: the first, one past the last, the position of the first."""
        positions = self.positions or tuple(range(self.shape[1]))
        begins = [n for n, position in enumerate(positions) if n == 0 or position != positions[n - 1] + 1]
        ends = [*begins[1:], len(positions)]
        return [(first, end, positions[first]) for first, end in zip(begins, ends, strict=True)]

    def spread(self, per_channel: Array, axis: int) -> Array:
        """Per-channel values along ``axis`` at the positions of the channels, with zeros for padding channels."""
        if not self.is_image or (self.positions is None and self.width == per_channel.shape[axis]):
            return per_channel
        shape = list(per_channel.shape)
        shape[axis] = self.width
        made = np.zeros(shape, per_channel.dtype)
        where: list[Any] = [slice(None)] * made.ndim
        where[axis] = list(self.positions) if self.positions is not None else slice(0, per_channel.shape[axis])
        made[tuple(where)] = per_channel
        return made

    def dense(self, name: str) -> "Value":
        """The same with channels in order and without padding."""
        if not self.is_image or (self.positions is None and self.width == self.shape[1]):
            return self
        return computed(self.shape, lambda *i: self.at(i), name, 1, is_image=True)

    def in_layout(self, name: str, lanes: int, *, is_image: bool) -> "Value":
        """The same in image or plain layout, not as a view."""
        if self.is_image == is_image and self.axes is None:
            return self
        return computed(self.shape, lambda *i: self.at(i), name, lanes, is_image=is_image)


def image_shape(shape: Shape) -> tuple[int, int, int, int]:
    """The shape (N, C, H, W) of an image; (N, C, L) has one row."""
    batch, channels, *rest = shape
    height, width = (1, *rest)[-2:]
    return batch, channels, height, width


def own_shape(shape: Shape, lanes: int, *, is_image: bool) -> Shape:
    """The shape of a tensor in a program."""
    if not is_image:
        return shape
    batch, channels, height, width = image_shape(shape)
    return batch, height, width, padded_channels(channels, lanes)


def computed(shape: Shape, element: Callable[..., Expr], name: str, lanes: int, *, is_image: bool) -> Value:
    """The tensor with these elements at the model's indices, and 0 in padding channels."""
    if not is_image:
        return Value(compute(shape, element, name), shape, is_image=False)
    whole = own_shape(shape, lanes, is_image=True)

    def own(n: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
        value = element(n, c, y, x) if len(shape) == 4 else element(n, c, x)
        return value if whole[3] == shape[1] else select(c < shape[1], value, 0)

    return Value(compute(whole, own, name), shape, is_image=True)
