"""What of a model are 8-bit values, between QuantizeLinear and DequantizeLinear, and constants behind the latter."""

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
    """Whole numbers, without their zero point, and a scale for all of them or for each index of ``axis``."""

    values: NDArray[np.int64]
    scale: NDArray[np.float64]
    axis: int

    def scale_along(self, axis: int) -> NDArray[np.float64] | None:
        """A scale for each index of an axis; None where scales belong to another one."""
        if self.scale.size == 1:
            return np.full(self.values.shape[axis], self.scale.reshape(-1)[0])
        return self.scale if self.axis % self.values.ndim == axis else None


class Values:
    """Which tensor of a model is which quantised one."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.producer: dict[str, int] = {
            name: number for number, node in enumerate(model.nodes) for name in node.output if name
        }
        self.readers = Counter(name for node in model.nodes for name in names_read(node))
        self.readers.update(model.outputs)

    def node_of(self, name: str, kind: str | None = None) -> tuple[int, Any] | None:
        """The number and node that makes a tensor, if it is of some kind."""
        number = self.producer.get(name)
        if number is None:
            return None
        node = self.model.nodes[number]
        return (number, node) if kind is None or (node.op_type == kind and node.domain in ("", "ai.onnx")) else None

    def bytes_behind(self, name: str) -> tuple[str, Quantisation, int] | None:
        """The tensor of 8 bits that a float one stands for, how it is read, and the number of the node that says so."""
        found = self.node_of(name, "DequantizeLinear")
        if found is None:
            return None
        number, node = found
        how = self.quantisation(node)
        source = node.input[0]
        known = self.model.types.get(source)
        if how is None or known is None or known.dtype != how.dtype or source in self.model.initializers:
            return None
        return source, how, number

    def quantisation(self, node: Any) -> Quantisation | None:
        """How the 8-bit side of a QuantizeLinear or DequantizeLinear is read, if one scale holds for all of it.

        Raises ModelError for a scale that is no positive number.
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

    def constant_behind(self, name: str) -> Constant | None:
        """The whole numbers and scales of a constant that is dequantised."""
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

    def numbers_behind(self, name: str) -> NDArray[np.float64] | None:
        """The values of a constant of floating-point numbers, or of one that is dequantised with a single scale."""
        held = self.model.constant(name) if name else None
        if held is not None:
            return held.astype(np.float64) if held.dtype.kind == "f" else None
        found = self.constant_behind(name)
        return None if found is None or found.scale.size != 1 else found.values * found.scale[0]

    def _numbers(self, node: Any) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Scale and zero point, if they are constants; no zero point: None."""
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
