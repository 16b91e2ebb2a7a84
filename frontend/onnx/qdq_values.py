"""Quantised values of a model: 8-bit tensors with their quantisation, and dequantised constants."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.host_worker import names_read
from lathe.frontend.onnx.quant_graph import Quantisation
from lathe.frontend.onnx.reading import Model, attributes_of

BYTES = ("int8", "uint8")


@dataclass(frozen=True, eq=False)
class Constant:
    """Integers minus their zero point, and a scale for all of them or one for each index of ``axis``."""

    values: NDArray[np.int64]
    scale: NDArray[np.float64]
    axis: int

    def scale_along(self, axis: int) -> NDArray[np.float64] | None:
        """A scale for each index of an axis; None if the scales vary along another axis."""
        if self.scale.size == 1:
            return np.full(self.values.shape[axis], self.scale.reshape(-1)[0])
        return self.scale if self.axis % self.values.ndim == axis else None


class Values:
    """Producers of a model's tensors, and the quantised values that they stand for."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.producer: dict[str, int] = {
            name: number for number, node in enumerate(model.nodes) for name in node.output if name
        }
        self.use_counts = Counter(name for node in model.nodes for name in names_read(node))
        self.use_counts.update(model.outputs)

    def node_of(self, name: str, kind: str | None = None) -> tuple[int, Any] | None:
        """The number and node that computes a tensor, if its operator is ``kind``."""
        number = self.producer.get(name)
        if number is None:
            return None
        node = self.model.nodes[number]
        return (number, node) if kind is None or (node.op_type == kind and node.domain in ("", "ai.onnx")) else None

    def dequantised_source(self, name: str) -> tuple[str, Quantisation, int] | None:
        """The 8-bit tensor that a float tensor is dequantised from, its quantisation, and the node's number."""
        found = self.node_of(name, "DequantizeLinear")
        if found is None:
            return None
        number, node = found
        quant = self.quantisation(node)
        source = node.input[0]
        known = self.model.types.get(source)
        if quant is None or known is None or known.dtype != quant.dtype or source in self.model.initializers:
            return None
        return source, quant, number

    def quantisation(self, node: Any) -> Quantisation | None:
        """The per-tensor quantisation of a QuantizeLinear or DequantizeLinear of 8 bits; None for any other.

        Raises ModelError for a scale that is not a positive number.
        """
        scale, zero = self._numbers(node)
        if scale is None or scale.size != 1:
            return None
        known = self.model.types.get(node.output[0] if node.op_type == "QuantizeLinear" else node.input[0])
        if known is None or known.dtype not in BYTES:
            return None
        if zero is None:
            zero = np.zeros((), known.dtype)
        if str(zero.dtype) != known.dtype or zero.size != 1:
            return None
        return Quantisation(_checked(scale, node).item(), int(zero.reshape(-1)[0]), str(zero.dtype))

    def dequantised_constant(self, name: str) -> Constant | None:
        """The integers and scales of a dequantised constant."""
        found = self.node_of(name, "DequantizeLinear")
        if found is None:
            return None
        node = found[1]
        stored = self.model.constant(node.input[0])
        scale, zero = self._numbers(node)
        if stored is None or scale is None or stored.dtype.kind not in "iu":
            return None
        attributes = attributes_of(node)
        axis = attributes.get("axis", 1)
        if attributes.get("block_size", 0):
            return None
        values = stored.astype(np.int64)
        along = max(scale.size, 1 if zero is None else zero.size)
        if along > 1 and (not -stored.ndim <= axis < stored.ndim or along != stored.shape[axis]):
            return None
        if zero is not None:
            along = zero.size > 1
            shape = [-1 if along and n == axis % stored.ndim else 1 for n in range(stored.ndim)]
            values = values - zero.astype(np.int64).reshape(shape if stored.ndim else ())
        return Constant(values, _checked(scale, node).reshape(-1), axis)

    def constant_floats(self, name: str) -> NDArray[np.float64] | None:
        """The values of a float constant, or of one that is dequantised with a single scale."""
        held = self.model.constant(name) if name else None
        if held is not None:
            return held.astype(np.float64) if held.dtype.kind == "f" else None
        found = self.dequantised_constant(name)
        return None if found is None or found.scale.size != 1 else found.values * found.scale[0]

    def _numbers(self, node: Any) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Scale and zero point, each None if it is absent; both None if the zero point is computed."""
        zero = self.model.constant(node.input[2]) if len(node.input) > 2 and node.input[2] else None
        if len(node.input) > 2 and node.input[2] and zero is None:
            return None, None
        return self.model.constant(node.input[1]), zero


def _checked(scale: NDArray[Any], node: Any) -> NDArray[np.float64]:
    values = scale.astype(np.float64)
    if not np.all(np.isfinite(values) & (values > 0)):
        wrong = values.reshape(-1)[~(np.isfinite(values) & (values > 0)).reshape(-1)][0]
        raise ModelError(f"scale of node {node.name or node.output[0]!r} must be a positive number, not {wrong}.")
    return values
