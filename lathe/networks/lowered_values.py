"""Tensors of a model as a program has them: plain, or as images with channels last, which fill whole blocks of lanes.

Elements hold a block of channels, whether there are as many or not. Where a program has them all, the last ones being
nobody's, no block has an end of its own: tensors lie behind each other in whole elements, and no instruction is cut at
the last channel. Weights for channels of nobody are zeros, and so are their factors. An image of one row, (N, C, L), is
(N, 1, L, C) in a program. Whether a tensor of three or four dimensions is one, its makers and readers say.

A plain tensor may be another one, read otherwise (``axes``): reshaped or transposed without anything being moved.
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


def filled(channels: int, lanes: int) -> int:
    """Channels that fill whole blocks; so few that they would fill less than half of one stay alone."""
    return channels if 2 * channels < lanes else -(-channels // lanes) * lanes


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of a program, the shape that the model gives it, whether it is an image, and its channels' places.

    ``places`` None: in their order, from 0 on. ``more``: of 32 bits the bytes behind the lowest, which ``tensor`` is.
    ``axes``: of each dimension of a plain tensor the axes of ``tensor`` that are its digits, the last moving fastest;
    None: each its own.
    """

    tensor: Tensor
    shape: Shape
    is_image: bool
    places: Shape | None = None
    more: tuple[Tensor, ...] = ()
    axes: tuple[Shape, ...] | None = None

    @property
    def own_axes(self) -> tuple[Shape, ...]:
        """Of each dimension of a plain tensor the axes."""
        return tuple((n,) for n in range(len(self.shape))) if self.axes is None else self.axes

    def digits(self, dimension: int) -> Shape:
        """The extents of a dimension's axes."""
        return tuple(self.tensor.shape[axis] for axis in self.own_axes[dimension])

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All of it."""
        return self.tensor, *self.more

    @property
    def image_shape(self) -> Shape:
        """The shape of an image as (N, C, H, W)."""
        return image_shape(self.shape)

    @property
    def width(self) -> int:
        """Channels that the program has, with those of nobody."""
        return self.tensor.shape[-1]

    def is_usual(self, lanes: int) -> bool:
        """Whether its channels lie in order, and are as many as tensors have that are computed as they are."""
        if not self.is_image:
            return self.axes is None
        return self.places is None and self.width == filled(self.shape[1], lanes)

    def at(self, indices: tuple[Expr, ...]) -> Expr:
        """The element at the model's indices; of channels that lie apart, one of several reads."""
        if self.axes is not None:
            return self.read([Index((size,), (index,)) for size, index in zip(self.shape, indices, strict=True)])
        if not self.is_image:
            return self.tensor[indices]
        n, c, *rest = indices
        pixel: list[Expr | int] = [n, *rest] if len(rest) == 2 else [n, 0, *rest]
        if self.places is None:
            return self.tensor[(*pixel, c)]
        value: Expr | None = None
        for first, end, place in reversed(self.runs()):
            read = self.tensor[(*pixel, c + (place - first) if place != first else c)]
            value = read if value is None else select(c < end, read, value)
        assert value is not None, "a tensor has channels"
        return value

    def read(self, indices: Sequence[Index]) -> Expr:
        """The element of a plain tensor at the model's indices, each given by its digits."""
        found: list[Expr | Axis | int] = [0] * self.tensor.ndim
        for index, axes in zip(indices, self.own_axes, strict=True):
            for axis, digit in zip(axes, in_digits(index, [self.tensor.shape[axis] for axis in axes]), strict=True):
                found[axis] = digit
        return self.tensor[tuple(found)]

    def reshaped(self, shape: Shape) -> "Value | None":
        """A plain tensor under another shape, nothing being moved; None where an axis would have to be taken apart."""
        axes = [axis for dimension in self.own_axes for axis in dimension if self.tensor.shape[axis] > 1]
        groups = regrouped([self.tensor.shape[axis] for axis in axes], shape)
        if groups is None or self.more:
            return None
        return self.seen_as(shape, tuple(tuple(axes[n] for n in group) for group in groups))

    def transposed(self, order: Shape) -> "Value":
        """A plain tensor with its dimensions in another order, nothing being moved."""
        return self.seen_as(tuple(self.shape[n] for n in order), tuple(self.own_axes[n] for n in order))

    def seen_as(self, shape: Shape, axes: tuple[Shape, ...]) -> "Value":
        """The same tensor of the program as a plain one of the model, with these axes."""
        usual = shape == self.tensor.shape and axes == tuple((n,) for n in range(len(shape)))
        return Value(self.tensor, shape, is_image=False, axes=None if usual else axes)

    def runs(self) -> list[tuple[int, int, int]]:
        """Channels that lie beside each other: the first, one past the last, the place of the first."""
        places = self.places or tuple(range(self.shape[1]))
        begins = [n for n, place in enumerate(places) if n == 0 or place != places[n - 1] + 1]
        ends = [*begins[1:], len(places)]
        return [(first, end, places[first]) for first, end in zip(begins, ends, strict=True)]

    def spread(self, per_channel: Array, axis: int) -> Array:
        """What the model has for each channel, zeros for channels of nobody."""
        if not self.is_image or (self.places is None and self.width == per_channel.shape[axis]):
            return per_channel
        shape = list(per_channel.shape)
        shape[axis] = self.width
        made = np.zeros(shape, per_channel.dtype)
        where: list[Any] = [slice(None)] * made.ndim
        where[axis] = list(self.places) if self.places is not None else slice(0, per_channel.shape[axis])
        made[tuple(where)] = per_channel
        return made

    def dense(self, name: str) -> "Value":
        """The same with the model's channels alone, in their order."""
        if not self.is_image or (self.places is None and self.width == self.shape[1]):
            return self
        return computed(self.shape, lambda *i: self.at(i), name, 1, is_image=True)

    def laid_out(self, name: str, lanes: int, *, is_image: bool) -> "Value":
        """The same as an image, or plain, in either case with axes of its own."""
        if self.is_image == is_image and self.axes is None:
            return self
        return computed(self.shape, lambda *i: self.at(i), name, lanes, is_image=is_image)


def image_shape(shape: Shape) -> tuple[int, int, int, int]:
    """The shape of an image as (N, C, H, W): of one row, if the model has (N, C, L)."""
    batch, channels, *rest = shape
    height, width = (1, *rest)[-2:]
    return batch, channels, height, width


def own_shape(shape: Shape, lanes: int, *, is_image: bool) -> Shape:
    """The shape that programs give a tensor."""
    if not is_image:
        return shape
    batch, channels, height, width = image_shape(shape)
    return batch, height, width, filled(channels, lanes)


def computed(shape: Shape, element: Callable[..., Expr], name: str, lanes: int, *, is_image: bool) -> Value:
    """The tensor of a model's shape whose elements at the model's indices are these, 0 for channels of nobody."""
    if not is_image:
        return Value(compute(shape, element, name), shape, is_image=False)
    whole = own_shape(shape, lanes, is_image=True)

    def own(n: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
        value = element(n, c, y, x) if len(shape) == 4 else element(n, c, x)
        return value if whole[3] == shape[1] else select(c < shape[1], value, 0)

    return Value(compute(whole, own, name), shape, is_image=True)
