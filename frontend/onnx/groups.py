"""What a layer is made of: a QuantizeLinear with what it reads, and the operands that stand behind DequantizeLinear."""

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.layers import Layer, Quantisation
from lathe.frontend.onnx.quantised_values import Values
from lathe.frontend.onnx.reading import Model, TensorType
from lathe.frontend.onnx.unfit import Unfit


@dataclass(eq=False)
class Recognised:
    """The layers of a model by the tensor of 8 bits that each makes; why other nodes are none, by node number."""

    layers: dict[str, Layer] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Group:
    """A QuantizeLinear, and what it reads: result ``source`` of ``core``; ``relu``: whether a rectifier is between."""

    quantise: Any
    how: Quantisation
    core: Any
    source: str
    numbers: tuple[int, ...]
    relu: bool

    @property
    def name(self) -> str:
        return str(self.core.name or self.core.output[0])

    @property
    def output(self) -> str:
        return str(self.quantise.output[0])


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
        whole = np.rint(np.broadcast_to(values, unit.shape) / unit)
        if np.any(np.abs(whole) >= 2**31):
            raise Unfit("its bias does not fit 32 bits in units of its sums")
        return np.asarray(whole, np.int64)


def weights_of(values: NDArray[Any]) -> NDArray[Any]:
    """Weights as int8."""
    if values.min(initial=0) < -128 or values.max(initial=0) > 127:
        raise Unfit("its weights less their zero point do not fit int8")
    return values.astype(np.int8)
