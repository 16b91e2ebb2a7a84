"""What a layer's program is made with: names, lanes, constants; and operands whose channels lie alike."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lathe.frontend import Tensor, placeholder
from lathe.frontend.expr.expr_base import Expr
from lathe.networks.lowered_values import Array, Shape, Value, computed, image_shape


@dataclass(frozen=True, eq=False)
class Context:
    """What a layer is lowered with; constants are added.

    Its ``name``, the model's ``shape`` of its result, whether others read that as an image, and the machine's lanes.
    ``digits``: those of each dimension of the result, if it is to be made so and the layer can; ``is_view``: whether
    what it moves may stay where it is.
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
        """A constant of the program."""
        held = placeholder(values.shape, str(values.dtype), name=f"{self.name}.{suffix}")
        self.constants[held.name] = np.ascontiguousarray(values)
        self.placeholders.append(held)
        return held

    @property
    def image_shape(self) -> Shape:
        """The shape of the result as (N, C, H, W)."""
        return image_shape(self.shape)

    def image(self, tensor: Tensor, places: Shape | None = None, more: tuple[Tensor, ...] = ()) -> Value:
        """The result as an image."""
        return Value(tensor, self.shape, is_image=True, places=places, more=more)

    def plain(self, tensor: Tensor, more: tuple[Tensor, ...] = ()) -> Value:
        """The result as the model has it."""
        return Value(tensor, self.shape, is_image=False, more=more)

    def like(self, tensor: Tensor, other: Value) -> Value:
        """The result as another tensor of its shape lies."""
        return Value(tensor, self.shape, other.is_image, other.places, axes=other.axes)

    def in_digits(self, tensor: Tensor, digits: tuple[Shape, ...]) -> Value:
        """The result, whose dimensions are axes of the tensor one behind the other."""
        return plain_in_digits(tensor, self.shape, digits)

    def as_image(self, value: Value) -> Value:
        """An operand as an image."""
        return value.laid_out(f"{self.name}.image", self.lanes, is_image=True)

    @property
    def digits_made(self) -> tuple[Shape, ...]:
        """The digits of each dimension that a result is made with: the dimensions themselves where nobody cares."""
        return tuple((size,) for size in self.shape) if self.digits is None else self.digits

    def as_readable(self, value: Value, number: int = 0) -> Value:
        """An operand that is no image, in whatever digits."""
        return self.as_plain(value, number) if value.is_image else value

    def as_plain(self, value: Value, number: int = 0) -> Value:
        """An operand as the model has it: the first, or of that number."""
        return value.laid_out(f"{self.name}.plain{number or ''}", self.lanes, is_image=False)


def wrapped(values: Array) -> Array:
    """Sums of 32 bits, which wrap around as accumulators do."""
    wrapped: Array = ((values.astype(np.int64) + 2**31) % 2**32 - 2**31).astype(np.int32)
    return wrapped


def padded(values: Array, axis: int, count: int) -> Array:
    """Zeros behind the last along an axis."""
    widths = [(0, count - values.shape[n] if n == axis else 0) for n in range(values.ndim)]
    return np.pad(values, widths)


def alike(data: tuple[Value, ...], context: Context) -> tuple[Value, ...]:
    """Operands of one shape that lie as the first does, without gaps between channels if any lies otherwise."""
    if len({(each.is_image, each.places, each.axes, each.tensor.shape) for each in data}) == 1:
        return data
    is_image = data[0].is_image
    return tuple(
        each
        if each.is_image == is_image and each.is_usual(context.lanes)
        else computed(each.shape, elements_of(each), f"{context.name}.data{n}", context.lanes, is_image=is_image)
        for n, each in enumerate(data)
    )


def plain_in_digits(tensor: Tensor, shape: Shape, digits: tuple[Shape, ...]) -> Value:
    """A plain tensor whose dimensions are axes of the program's one behind the other, as many as each has digits."""
    ahead = iter(range(tensor.ndim))
    plain = Value(tensor, tensor.shape, is_image=False)
    return plain.seen_as(shape, tuple(tuple(next(ahead) for _ in extents) for extents in digits))


def elements_of(value: Value) -> Callable[..., Expr]:
    """The elements of a tensor, by the model's indices."""
    return lambda *i: value.at(i)
