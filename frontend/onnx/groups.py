"""What a layer is made of: a QuantizeLinear with what it reads, and the operands that stand behind DequantizeLinear."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.layers import Layer, Quantisation
from lathe.frontend.onnx.quantised_values import Values
from lathe.frontend.onnx.reading import Model
from lathe.frontend.onnx.unfit import Unfit
from lathe.frontend.onnx.value_types import TensorType


@dataclass(eq=False)
class Recognised:
    """The layers of a model by the tensor of 8 bits that each makes; why other nodes are none, by node number."""

    layers: dict[str, Layer] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Group:
    """A QuantizeLinear, and what it reads: result ``source`` of ``core``; ``relu``: whether a rectifier is between.

    ``output`` is the tensor of 8 bits that is made, and ``limits`` are those of its values.
    """

    output: str
    how: Quantisation
    core: Any
    source: str
    numbers: tuple[int, ...]
    relu: bool
    limits: tuple[int, int]

    @property
    def name(self) -> str:
        return str(self.core.name or self.core.output[0])


Operand: TypeAlias = tuple[str, Quantisation, Mapping[str, NDArray[Any]]]
"""A tensor of 8 bits, how it is read, and its values by its name, if it is a constant."""


class Operands:
    """What layers of a model read; ``found`` collects them."""

    def __init__(self, model: Model) -> None:
        self.model, self.values = model, Values(model)
        self.found = Recognised()

    def operand(self, name: str) -> tuple[str, Quantisation]:
        """The tensor of 8 bits that an operand is."""
        found = self.values.bytes_behind(name)
        if found is None:
            raise Unfit(f"its operand {name!r} is not a tensor of 8 bits with a single constant scale")
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
            raise Unfit(f"the shape of {name!r} is not known")
        return known.shape

    def bias(self, name: str, unit: NDArray[Any]) -> NDArray[Any]:
        """Biases in units of the sums; such as are no whole numbers of these are rounded to one."""
        shape = self.shape(name)
        count = prod(shape)
        if count != 1 and (shape[-1], count) != (len(unit), len(unit)):
            raise Unfit("its bias is not one number for each filter")
        constant = self.values.constant_behind(name)
        if constant is not None:
            numbers, scale = constant.values.reshape(-1), np.broadcast_to(constant.scale, unit.shape)
            if np.allclose(scale, unit, rtol=1e-6, atol=0):
                return np.asarray(np.broadcast_to(numbers, unit.shape), np.int64)
            values = numbers * scale
        else:
            plain = self.model.constant(name)
            if plain is None:
                raise Unfit("its bias is no constant")
            values = plain.astype(np.float64).reshape(-1)
        if not np.all(np.isfinite(values)):
            raise Unfit("its bias is not finite")
        whole = np.rint(np.broadcast_to(values, unit.shape) / unit)
        if np.any(np.abs(whole) >= 2**31):
            raise Unfit("its bias does not fit 32 bits in units of its sums")
        return np.asarray(whole, np.int64)


def weights_of(values: NDArray[np.int64]) -> NDArray[np.int16]:
    """Weights of 8 bits, less their zero point."""
    if np.any(np.abs(values) > 255):
        raise Unfit("its weights have more than 8 bits")
    return values.astype(np.int16)
