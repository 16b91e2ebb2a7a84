"""Checks that quantised operators have the right number and type of scales, zero points and biases.

ONNX's checker and shape inference do not check them. Layers would use wrong scales, and host nodes fail at run time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.reading import Model, attributes_of

MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class _Operand:
    """The input numbers of a node's tensor, its scale and its zero point; -1: none.

    ``axis``: the dimension that may have one for each index; None for per-tensor quantisation. A ``result`` has as
    many rows as the tensor, and a dtype of its own.
    """

    data: int
    scale: int
    zero: int
    axis: int | None = None
    result: bool = False


_PER_TENSOR = _Operand(0, 1, 2), _Operand(3, 4, 5), _Operand(-1, 6, 7)
_OPERANDS: Mapping[tuple[str, str], tuple[_Operand, ...]] = {
    ("", "QLinearConv"): (_Operand(0, 1, 2), _Operand(3, 4, 5, 0), _Operand(-1, 6, 7)),
    ("", "QLinearMatMul"): (_Operand(0, 1, 2, -2), _Operand(3, 4, 5, -1), _Operand(0, 6, 7, -2, result=True)),
    ("", "ConvInteger"): (_Operand(0, -1, 2), _Operand(1, -1, 3, 0)),
    ("", "MatMulInteger"): (_Operand(0, -1, 2, -2), _Operand(1, -1, 3, -1)),
    (MICROSOFT, "QLinearAdd"): _PER_TENSOR,
    (MICROSOFT, "QLinearMul"): _PER_TENSOR,
    **{
        (MICROSOFT, f"QLinear{kind}"): (_Operand(0, 1, 2), _Operand(-1, 3, 4))
        for kind in ("AveragePool", "GlobalAveragePool", "LeakyRelu", "ReduceMean", "Sigmoid", "Softmax")
    },
}


def check_quantisation(model: Model) -> None:
    """Raise ModelError for the first scale, zero point or bias with a wrong number of elements or dtype.

    Tensors of unknown shape are not checked.
    """
    for node in model.nodes:
        found = _Node(model, node)
        for operand in _operands_of(node, found.attributes):
            found.check(operand)
        if found.key == ("", "QLinearConv"):
            found.check_bias(8, 3)


def _operands_of(node: Any, attributes: Mapping[str, Any]) -> Iterator[_Operand]:
    """The operands of a node that have scales or zero points."""
    key = key_of(node)
    if key in (("", "QuantizeLinear"), ("", "DequantizeLinear")):
        if not attributes.get("block_size", 0):
            yield _Operand(0, 1, 2, attributes.get("axis", 1), result=node.op_type == "QuantizeLinear")
    elif key == (MICROSOFT, "QGemm"):
        yield from (_Operand(0, 1, 2), _Operand(3, 4, 5, 0 if attributes.get("transB", 0) else 1), _Operand(-1, 7, 8))
    elif key == (MICROSOFT, "QLinearConcat"):
        yield _Operand(-1, 0, 1)
        yield from (_Operand(index, index + 1, index + 2) for index in range(2, len(node.input), 3))
    else:
        yield from _OPERANDS.get(key, ())


def key_of(node: Any) -> tuple[str, str]:
    """The domain of a node's operator, empty for ONNX's own, and its type."""
    return "" if node.domain == "ai.onnx" else str(node.domain), str(node.op_type)


class _Node:
    """A node with its attributes and the types of its inputs."""

    def __init__(self, model: Model, node: Any) -> None:
        self.model, self.node, self.key = model, node, key_of(node)
        self.name = str(node.name or node.output[0])
        self.attributes = attributes_of(node)

    def check(self, operand: _Operand) -> None:
        """Raise ModelError for a wrong number of scales or zero points, and for zero points of another dtype."""
        self._check_count(operand, operand.scale, "scale")
        self._check_count(operand, operand.zero, "zero point")
        if operand.result:
            return
        data, zero = self._type(operand.data), self._type(operand.zero)
        if data is not None and zero is not None and data.dtype != zero.dtype:
            raise ModelError(
                f"zero point {self.node.input[operand.zero]!r} of node {self.name!r} must be {data.dtype}, as "
                f"{self.node.input[operand.data]!r} is, not {zero.dtype}."
            )

    def check_bias(self, index: int, weights: int) -> None:
        """Raise ModelError unless a bias has one element for each output channel."""
        known, channels = self._type(index), self._type(weights)
        if known is not None and channels is not None and known.shape != channels.shape[:1]:
            raise ModelError(
                f"bias {self.node.input[index]!r} of node {self.name!r} must have {channels.shape[0]} elements, as "
                f"many as dimension 0 of {self.node.input[weights]!r}, not shape {list(known.shape)}."
            )

    def _check_count(self, operand: _Operand, index: int, what: str) -> None:
        known, data = self._type(index), self._type(operand.data)
        count = 1 if known is None else prod(known.shape)
        if count == 1:
            return
        start = f"{what} {self.node.input[index]!r} of node {self.name!r} must have 1 element"
        if operand.axis is None:
            raise ModelError(f"{start}, not {count}.")
        if data is None or (known is not None and len(known.shape) > 1):
            return  # the matrices of a batch may have separate ones
        rank, name = len(data.shape), self.node.input[operand.data]
        if not -rank <= operand.axis < rank:
            if self.key[1] not in ("QuantizeLinear", "DequantizeLinear"):
                return
            raise ModelError(f"axis of node {self.name!r} must be from {-rank} to {rank - 1}, not {operand.axis}.")
        axis = operand.axis % rank
        if count != data.shape[axis]:
            raise ModelError(f"{start} or {data.shape[axis]}, as many as dimension {axis} of {name!r}, not {count}.")

    def _type(self, index: int) -> Any:
        """The type of an input; None if it is unknown or absent."""
        given = self.node.input[index] if 0 <= index < len(self.node.input) else ""
        return self.model.types.get(given) if given else None
