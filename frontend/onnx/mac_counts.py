"""Counts of multiply-accumulates of a model's nodes, by their shapes; and which of these nodes are quantised."""

from collections.abc import Mapping
from math import prod
from typing import Any

from lathe.frontend.onnx.propagate_qdq import moved_inputs
from lathe.frontend.onnx.quantisation_checks import MICROSOFT, key_of
from lathe.frontend.onnx.reading import Model, attributes_of

_OPERANDS: Mapping[tuple[str, str], tuple[int, int]] = {
    ("", "Conv"): (0, 1),
    ("", "ConvInteger"): (0, 1),
    ("", "ConvTranspose"): (0, 1),
    ("", "Gemm"): (0, 1),
    ("", "MatMul"): (0, 1),
    ("", "MatMulInteger"): (0, 1),
    ("", "QLinearConv"): (0, 3),
    ("", "QLinearMatMul"): (0, 3),
    (MICROSOFT, "QGemm"): (0, 3),
}
"""The inputs of convolutions and matmuls that are data and weights, or the two matrices."""
_RECURRENT = ("GRU", "LSTM", "RNN")


def macs_of(model: Model, node: Any) -> int:
    """Multiply-accumulates of a convolution, matmul or recurrent operator, padded taps included; 0 for other nodes.

    Also 0 for unknown shapes, and for control flow, whose bodies run an unknown number of times.
    """
    domain, kind = key = key_of(node)
    recurrent = domain == "" and kind in _RECURRENT
    indices = (0, 1, 2) if recurrent else _OPERANDS.get(key)
    if indices is None:
        return 0
    known = [model.types.get(name) for name in (*(node.input[index] for index in indices), node.output[0])]
    shapes = [each.shape for each in known if each is not None]
    if recurrent and len(shapes) > 2:
        return prod(shapes[0][:2]) * (prod(shapes[1]) + prod(shapes[2]))
    if recurrent or len(shapes) < 3:
        return 0
    data, weights, made = shapes
    if kind in ("Conv", "ConvInteger", "QLinearConv"):
        return prod(made) * prod(weights[1:])
    if kind == "ConvTranspose":
        return prod(data) * prod(weights[1:])
    return prod(made) * data[-2 if attributes_of(node).get("transA", 0) else -1]


def quantised_mac_nodes(model: Model) -> set[int]:
    """The numbers of convolutions and matmuls whose data and weights are 8 bits, also after data movement."""
    producers = {name: node for node in model.nodes for name in node.output if name}
    found = set[int]()
    for number, node in enumerate(model.nodes):
        indices = _OPERANDS.get(key_of(node))
        of_bytes = node.op_type.endswith("Integer") or node.op_type.startswith("Q")
        if indices is not None and (of_bytes or all(_is_dequantised(node.input[n], producers) for n in indices)):
            found.add(number)
    return found


def _is_dequantised(name: str, producers: Mapping[str, Any]) -> bool:
    """Whether a tensor comes from DequantizeLinear nodes through only data movement and Relu."""
    worklist = [name]
    while worklist:
        node = producers.get(worklist.pop())
        if node is None:
            return False
        if key_of(node) != ("", "DequantizeLinear"):
            data = node.input[:1] if key_of(node) == ("", "Relu") else moved_inputs(node)
            if not data:
                return False
            worklist += data
    return True
