"""What a layer is made of: a QuantizeLinear with what it reads, and the operands that stand behind DequantizeLinear."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.match_epilogue import AfterProduct
from lathe.frontend.onnx.qdq_values import Values
from lathe.frontend.onnx.quant_graph import SUMS, FloatSums, Layer, Quantisation
from lathe.frontend.onnx.rewritten_model import RewrittenModel
from lathe.frontend.onnx.unsupported import NotOffloadable
from lathe.frontend.onnx.value_types import TensorType


@dataclass(eq=False)
class Recognised:
    """The layers of a model by the tensor of 8 bits that each makes; why other nodes are none, by node number."""

    layers: dict[str, Layer] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeGroup:
    """A QuantizeLinear, and what it reads: result ``source`` of ``core``; ``relu``: whether a rectifier is between.

    ``output`` is the tensor of 8 bits that is made, and ``limits`` are those of its values. ``after``: what is done
    with a product before. A group of which nothing is brought to 8 bits is one of sums (``SUMS``).
    """

    output: str
    how: Quantisation
    core: Any
    source: str
    numbers: tuple[int, ...]
    relu: bool
    limits: tuple[int, int]
    after: AfterProduct | None = None

    @property
    def name(self) -> str:
        return str(self.core.name or self.core.output[0])


@dataclass(frozen=True, eq=False)
class Scaled:
    """What the sums of a product stand for: scales of weights, of each filter, and biases in units of the sums.

    Biases are those of each filter, or (rows, filters) of a matrix whose rows have their own.
    """

    weight_scale: NDArray[np.float64]
    bias: NDArray[np.int64]
    in_float: FloatSums | None = None
    rest: NDArray[np.float64] | None = None


Operand: TypeAlias = tuple[str, Quantisation, Mapping[str, NDArray[Any]]]
"""A tensor of 8 bits, how it is read, and its values by its name, if it is a constant."""


class Operands:
    """What layers of a model read, as it is seen; ``found`` collects them."""

    def __init__(self, view: RewrittenModel) -> None:
        self.view, self.model, self.values = view, view.model, Values(view.model)
        self.found = Recognised()

    def is_made(self, tensor: str) -> bool:
        """Whether a tensor of 8 bits is there: the model's own is, and any other if a layer makes it."""
        return tensor not in self.view.inner or tensor in self.found.layers

    def operand(self, name: str) -> tuple[str, Quantisation]:
        """The tensor of 8 bits that an operand is."""
        found = self.values.bytes_behind(name)
        if found is None or not self.is_made(found[0]):
            name = self.view.known_as.get(name, name)
            raise NotOffloadable(f"its operand {name!r} is not a tensor of 8 bits with a single constant scale")
        return found[0], found[1]

    def operand_or_constant(self, name: str) -> Operand:
        """The tensor of 8 bits that an operand is, and its values by its name, if it is a constant."""
        found = self.values.node_of(name, "DequantizeLinear")
        held = None if found is None else self.model.constant(found[1].input[0])
        how = None if found is None else self.values.quantisation(found[1])
        if found is None or held is None or how is None:
            return *self.operand(name), {}
        return found[1].input[0], how, {found[1].input[0]: held}

    def note_type(self, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        """Say what a tensor is that stands in no model."""
        self.model.types[name] = TensorType(dtype, shape)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        known = self.model.types.get(name)
        if known is None:
            raise NotOffloadable(f"the shape of {name!r} is not known")
        return known.shape

    def scaled(
        self,
        group: NodeGroup,
        how: Quantisation,
        greatest: int,
        scale: NDArray[np.float64],
        bias: str = "",
        times: float = 1.0,
        rows: int = 1,
    ) -> Scaled:
        """Sums of data that are read so with weights of these scales, (filters,); a bias counts so many ``times``.

        No sum exceeds the ``greatest``.
        Results of so many ``rows`` may have biases for each of them.
        """
        numbers: NDArray[np.float64] = np.zeros(len(scale))
        whole: NDArray[np.int64] | None = np.zeros(len(scale), np.int64)
        if bias:
            numbers, whole = self._biases(bias, how.scale * scale / times, rows)
            numbers = numbers * times
        if group.after is not None:
            scale = scale * group.after.gain
            numbers = numbers * group.after.gain + group.after.offset
            whole = None
        if not np.all(np.isfinite(numbers)):
            raise NotOffloadable("its bias is not finite")
        if group.how == SUMS:
            axis = 1 if group.core.op_type in ("Conv", "ConvTranspose") else len(self.shape(group.output)) - 1
            in_float = FloatSums(_as_few(how.scale * scale), _as_few(numbers.reshape(-1)), axis)
            return Scaled(scale, np.zeros(len(scale), np.int64), in_float)
        if whole is None:
            rounded = np.rint(numbers / (how.scale * scale))
            if np.any(np.abs(rounded) >= 2**31):
                raise NotOffloadable("its bias does not fit 32 bits in units of its sums")
            whole = rounded.astype(np.int64)
            rest = numbers / (how.scale * scale) - rounded
            share = (
                np.sum(np.abs(rest * how.scale * scale)) / max(rest.size, 1) / group.how.scale
            )  # of values that would be others
            if share > SHARE_OF_RESTS and greatest + np.abs(rounded).max() < 2**30:
                return Scaled(scale, whole, rest=rest)
        return Scaled(scale, whole)

    def _biases(self, name: str, unit: NDArray[Any], rows: int) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
        """Biases, (filters,) or (rows, filters), and what they are in units of the sums where the model has them so."""
        shape, filters = self.shape(name), len(unit)
        count = prod(shape)
        by_row = len(shape) == 2 and shape[0] == rows > 1 and shape[1] in (1, filters)
        if count != 1 and not by_row and (shape[-1], count) != (filters, filters):
            raise NotOffloadable("its bias is not one number for each filter")
        whole = (rows, filters) if by_row else (filters,)
        own = shape if by_row else (-1,)
        constant = self.values.constant_behind(name)
        if constant is not None:
            scale, axis = constant.scale, constant.axis % max(len(shape), 1)
            if by_row and scale.size > 1:
                scale = scale.reshape([-1 if n == axis else 1 for n in range(2)])
            numbers, scale = constant.values.reshape(own), np.broadcast_to(scale, whole)
            values = np.broadcast_to(numbers * scale, whole)
            if np.allclose(scale, unit, rtol=1e-6, atol=0):
                return values, np.asarray(np.broadcast_to(numbers, whole), np.int64)
            return values, None
        plain = self.model.constant(name)
        if plain is None:
            raise NotOffloadable("its bias is no constant")
        return np.broadcast_to(plain.astype(np.float64).reshape(own), whole), None


def _as_few(numbers: NDArray[np.float64]) -> tuple[float, ...]:
    """The numbers, one where all are the same."""
    found = tuple(map(float, numbers))
    return found[:1] if len({*found}) == 1 else found


SHARE_OF_RESTS = 2.0**-12
"""Biases are rounded to whole units of the sums where no larger a share of all values becomes another one by it."""


def greatest_sum(weights: NDArray[Any]) -> int:
    """What no sum of products of 8 bits with weights (filters, …) exceeds."""
    return 255 * int(np.abs(weights.astype(np.int64)).reshape(len(weights), -1).sum(axis=1).max(initial=0))


def weights_of(values: NDArray[np.int64]) -> NDArray[np.int16]:
    """Weights of 8 bits, less their zero point."""
    if np.any(np.abs(values) > 255):
        raise NotOffloadable("its weights have more than 8 bits")
    return values.astype(np.int16)
