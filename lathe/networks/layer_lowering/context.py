"""The context of lowering a layer, and conversion of operands to a common layout."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lathe.frontend import Tensor, placeholder
from lathe.frontend.expr.expr_base import Expr
from lathe.networks.lowered_values import Array, Shape, Value, computed, image_shape


@dataclass(frozen=True, eq=False)
class Context:
    """The context of lowering a layer; collects constants.

    ``name``: prefix of its stages; ``shape``: the model's shape of its result; ``prefers_image_layout``: consumers
    require an image; ``lanes``: of the machine. ``digits``: the extents that each dimension of the result should be
    split into, if the layer can do it; ``is_view``: data movement may become a view.
    """

    name: str
    shape: Shape
    read_as_image: bool
    lanes: int
    constants: dict[str, Array]
    placeholders: list[Tensor]
    digits: tuple[Shape, ...] | None = None
    is_view: bool = False

    def constant(self, suffix: str, values: Array) -> Tensor:
        """Add a constant of the program."""
        held = placeholder(values.shape, str(values.dtype), name=f"{self.name}.{suffix}")
        self.constants[held.name] = np.ascontiguousarray(values)
        self.placeholders.append(held)
        return held

    @property
    def image_shape(self) -> Shape:
        """The shape of the result as (N, C, H, W)."""
        return image_shape(self.shape)

    def image(self, tensor: Tensor, positions: Shape | None = None, more: tuple[Tensor, ...] = ()) -> Value:
        """The result as an image."""
        return Value(tensor, self.shape, is_image=True, positions=positions, more=more)

    def plain(self, tensor: Tensor, more: tuple[Tensor, ...] = ()) -> Value:
        """The result in plain layout."""
        return Value(tensor, self.shape, is_image=False, more=more)

    def like(self, tensor: Tensor, other: Value) -> Value:
        """The result in the layout of another tensor of its shape."""
        return Value(tensor, self.shape, other.is_image, other.positions, axes=other.axes)

    def in_digits(self, tensor: Tensor, digits: tuple[Shape, ...]) -> Value:
        """The result, whose dimensions are split into consecutive axes of the tensor."""
        return plain_in_digits(tensor, self.shape, digits)

    def as_image(self, value: Value) -> Value:
        """An operand as an image."""
        return value.in_layout(f"{self.name}.image", self.lanes, is_image=True)

    @property
    def result_digits(self) -> tuple[Shape, ...]:
        """The extents that each dimension of the result is split into: its own extent if it is not split."""
        return tuple((size,) for size in self.shape) if self.digits is None else self.digits

    def as_readable(self, value: Value, number: int = 0) -> Value:
        """An operand in plain layout, possibly as a view."""
        return self.as_plain(value, number) if value.is_image else value

    def as_plain(self, value: Value, number: int = 0) -> Value:
        """Operand ``number`` in plain layout, not as a view."""
        return value.in_layout(f"{self.name}.plain{number or ''}", self.lanes, is_image=False)


def wrapped(values: Array) -> Array:
    """Values wrapped around to int32, as in accumulators."""
    wrapped: Array = ((values.astype(np.int64) + 2**31) % 2**32 - 2**31).astype(np.int32)
    return wrapped


def padded(values: Array, axis: int, count: int) -> Array:
    """Values padded with zeros at the end of an axis, to extent ``count``."""
    widths = [(0, count - values.shape[n] if n == axis else 0) for n in range(values.ndim)]
    return np.pad(values, widths)


def in_common_layout(data: tuple[Value, ...], context: Context) -> tuple[Value, ...]:
    """Operands of one shape, converted to the layout of the first, with channels in order, if layouts differ."""
    if len({(each.is_image, each.positions, each.axes, each.tensor.shape) for each in data}) == 1:
        return data
    is_image = data[0].is_image
    return tuple(
        each
        if each.is_image == is_image and each.has_default_layout(context.lanes)
        else computed(each.shape, elements_of(each), f"{context.name}.data{n}", context.lanes, is_image=is_image)
        for n, each in enumerate(data)
    )


def plain_in_digits(tensor: Tensor, shape: Shape, digits: tuple[Shape, ...]) -> Value:
    """A plain tensor whose dimensions are split into consecutive axes of the program's tensor."""
    axes = iter(range(tensor.ndim))
    plain = Value(tensor, tensor.shape, is_image=False)
    return plain.view(shape, tuple(tuple(next(axes) for _ in extents) for extents in digits))


def elements_of(value: Value) -> Callable[..., Expr]:
    """A read of a tensor at the model's indices."""
    return lambda *i: value.at(i)
