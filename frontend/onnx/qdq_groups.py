"""What functions that match operators share: a QDQ group, access to its quantised operands, and the layers found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.match_epilogue import Epilogue
from lathe.frontend.onnx.qdq_values import Values
from lathe.frontend.onnx.quant_graph import SUMS, FloatSums, Layer, Quantisation
from lathe.frontend.onnx.rewritten_model import RewrittenModel
from lathe.frontend.onnx.unsupported import NotOffloadable
from lathe.frontend.onnx.value_types import TensorType


@dataclass(eq=False)
class MatchedLayers:
    """The layers of a model by output tensor, and the reasons why other nodes are no layers, by node number."""

    layers: dict[str, Layer] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeGroup:
    """A QuantizeLinear to ``output`` of the result ``source`` of operator ``core``; ``relu``: a Relu is in between.

    ``limits``: least and greatest value of the output. ``epilogue``: the epilogue of a convolution or matmul. A group
    whose result is not quantised has ``quant`` = ``SUMS``.
    """

    output: str
    quant: Quantisation
    core: Any
    source: str
    numbers: tuple[int, ...]
    relu: bool
    limits: tuple[int, int]
    epilogue: Epilogue | None = None

    @property
    def name(self) -> str:
        return str(self.core.name or self.core.output[0])


@dataclass(frozen=True, eq=False)
class Scaled:
    """The scale and bias of the int32 sums of a convolution or matmul.

    ``weight_scale`` is (channels,) for output channels. ``bias``, in units of the sums, is (channels,), or (rows,
    channels) if the rows of a matrix have biases of their own.
    """

    weight_scale: NDArray[np.float64]
    bias: NDArray[np.int64]
    in_float: FloatSums | None = None
    rest: NDArray[np.float64] | None = None


Operand: TypeAlias = tuple[str, Quantisation, Mapping[str, NDArray[Any]]]
"""An 8-bit tensor, its quantisation, and its values by its name, if it is a constant."""


class MatchContext:
    """The context of matching: a rewritten model, and in ``found`` the layers matched so far."""

    def __init__(self, view: RewrittenModel) -> None:
        self.view, self.model, self.values = view, view.model, Values(view.model)
        self.found = MatchedLayers()

    def is_available(self, tensor: str) -> bool:
        """Whether an 8-bit tensor is available: it is in the original model, or a layer computes it."""
        return tensor not in self.view.inner or tensor in self.found.layers

    def operand(self, name: str) -> tuple[str, Quantisation]:
        """The 8-bit tensor that an operand dequantises."""
        found = self.values.dequantised_source(name)
        if found is None or not self.is_available(found[0]):
            name = self.view.known_as.get(name, name)
            raise NotOffloadable(f"its operand {name!r} is not an 8-bit tensor with a single constant scale")
        return found[0], found[1]

    def operand_or_constant(self, name: str) -> Operand:
        """The 8-bit tensor that an operand dequantises, with its values if it is a constant."""
        found = self.values.node_of(name, "DequantizeLinear")
        values = None if found is None else self.model.constant(found[1].input[0])
        quant = None if found is None else self.values.quantisation(found[1])
        if found is None or values is None or quant is None:
            return *self.operand(name), {}
        return found[1].input[0], quant, {found[1].input[0]: values}

    def note_type(self, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        """Record the type of a tensor that matching introduces."""
        self.model.types[name] = TensorType(dtype, shape)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor; raises NotOffloadable if it is unknown."""
        known = self.model.types.get(name)
        if known is None:
            raise NotOffloadable(f"the shape of {name!r} is unknown")
        return known.shape

    def scaled(
        self,
        group: NodeGroup,
        quant: Quantisation,
        greatest: int,
        scale: NDArray[np.float64],
        bias: str = "",
        times: float = 1.0,
        rows: int = 1,
    ) -> Scaled:
        """Scale and bias of the sums of data with quantisation ``quant`` and weights with scales (channels,).

        ``greatest``: an upper bound on the sums. The tensor ``bias`` is multiplied by ``times``, and may have a value
        for each of ``rows``.
        """
        numbers: NDArray[np.float64] = np.zeros(len(scale))
        whole: NDArray[np.int64] | None = np.zeros(len(scale), np.int64)
        if bias:
            numbers, whole = self._biases(bias, quant.scale * scale / times, rows)
            numbers = numbers * times
        if group.epilogue is not None:
            scale = scale * group.epilogue.gain
            numbers = numbers * group.epilogue.gain + group.epilogue.offset
            whole = None
        if not np.all(np.isfinite(numbers)):
            raise NotOffloadable("its bias is not finite")
        if group.quant == SUMS:
            axis = 1 if group.core.op_type in ("Conv", "ConvTranspose") else len(self.shape(group.output)) - 1
            in_float = FloatSums(_as_few(quant.scale * scale), _as_few(numbers.reshape(-1)), axis)
            return Scaled(scale, np.zeros(len(scale), np.int64), in_float)
        if whole is None:
            rounded = np.rint(numbers / (quant.scale * scale))
            if np.any(np.abs(rounded) >= 2**31):
                raise NotOffloadable("its bias does not fit 32 bits at the scale of its sums")
            whole = rounded.astype(np.int64)
            rest = numbers / (quant.scale * scale) - rounded
            # The expected share of results that rounding the bias would change.
            share = np.sum(np.abs(rest * quant.scale * scale)) / max(rest.size, 1) / group.quant.scale
            if share > MAX_ROUNDING_EFFECT and greatest + np.abs(rounded).max() < 2**30:
                return Scaled(scale, whole, rest=rest)
        return Scaled(scale, whole)

    def _biases(self, name: str, unit: NDArray[Any], rows: int) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
        """Biases as floats, (channels,) or (rows, channels), and as stored integers if they have the sums' scale."""
        shape, filters = self.shape(name), len(unit)
        count = prod(shape)
        by_row = len(shape) == 2 and shape[0] == rows > 1 and shape[1] in (1, filters)
        if count != 1 and not by_row and (shape[-1], count) != (filters, filters):
            raise NotOffloadable("its bias does not have one value for each output channel")
        whole = (rows, filters) if by_row else (filters,)
        stored_shape = shape if by_row else (-1,)
        constant = self.values.dequantised_constant(name)
        if constant is not None:
            scale, axis = constant.scale, constant.axis % max(len(shape), 1)
            if by_row and scale.size > 1:
                scale = scale.reshape([-1 if n == axis else 1 for n in range(2)])
            numbers, scale = constant.values.reshape(stored_shape), np.broadcast_to(scale, whole)
            values = np.broadcast_to(numbers * scale, whole)
            if np.allclose(scale, unit, rtol=1e-6, atol=0):
                return values, np.asarray(np.broadcast_to(numbers, whole), np.int64)
            return values, None
        float_constant = self.model.constant(name)
        if float_constant is None:
            raise NotOffloadable("its bias is not a constant")
        return np.broadcast_to(float_constant.astype(np.float64).reshape(stored_shape), whole), None


def _as_few(numbers: NDArray[np.float64]) -> tuple[float, ...]:
    """The numbers; a single one if all are equal."""
    found = tuple(map(float, numbers))
    return found[:1] if len({*found}) == 1 else found


MAX_ROUNDING_EFFECT = 2.0**-12
"""Biases are rounded to integers at the scale of the sums if that changes at most this share of the results."""


def max_sum(weights: NDArray[Any]) -> int:
    """An upper bound on the sums of 8-bit data times weights (channels, …)."""
    return 255 * int(np.abs(weights.astype(np.int64)).reshape(len(weights), -1).sum(axis=1).max(initial=0))


def int16_weights(values: NDArray[np.int64]) -> NDArray[np.int16]:
    """8-bit weights minus their zero point, as int16."""
    if np.any(np.abs(values) > 255):
        raise NotOffloadable("its weights have more than 8 bits")
    return values.astype(np.int16)
