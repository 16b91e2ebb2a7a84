"""What a layer's program is made with: names, lanes, constants; and operands whose channels lie alike."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lathe.frontend import Tensor, placeholder
from lathe.frontend.operand import Expr
from lathe.networks.values import Array, Shape, Value, computed


@dataclass(frozen=True, eq=False)
class Context:
    """What a layer is lowered with: its ``name``, the model's ``shape`` of its result, lanes; constants are added."""

    name: str
    shape: Shape
    lanes: int
    constants: dict[str, Array]
    placeholders: list[Tensor]

    def constant(self, suffix: str, values: Array) -> Tensor:
        """A constant of the program."""
        held = placeholder(values.shape, str(values.dtype), name=f"{self.name}.{suffix}")
        self.constants[held.name] = np.ascontiguousarray(values)
        self.placeholders.append(held)
        return held

    def image(self, tensor: Tensor, places: Shape | None = None) -> Value:
        """The result."""
        return Value(tensor, self.shape, places)


def wrapped(values: Array) -> Array:
    """Sums of 32 bits, which wrap around as accumulators do."""
    wrapped: Array = ((values.astype(np.int64) + 2**31) % 2**32 - 2**31).astype(np.int32)
    return wrapped


def padded(values: Array, axis: int, count: int) -> Array:
    """Zeros behind the last along an axis."""
    widths = [(0, count - values.shape[n] if n == axis else 0) for n in range(values.ndim)]
    return np.pad(values, widths)


def alike(data: tuple[Value, ...], context: Context) -> tuple[Value, ...]:
    """Operands whose channels have the same places."""
    if len({(each.places, each.tensor.shape[-1]) for each in data}) == 1:
        return data
    return tuple(
        each
        if each.places is None
        else computed(each.shape, _elements_of(each), f"{context.name}.data{n}", context.lanes)
        for n, each in enumerate(data)
    )


def _elements_of(value: Value) -> Callable[..., Expr]:
    """The elements of a tensor, by the model's indices."""
    return lambda *i: value.at(i)
