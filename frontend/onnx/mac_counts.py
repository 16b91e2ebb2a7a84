"""Multiply-accumulates of a model's products, by the shapes of what they read and make; and which are of 8 bits."""

from collections.abc import Mapping
from math import prod
from typing import Any

from lathe.frontend.onnx.propagate_qdq import data_of
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
"""Which inputs of products are data and weights, or the two matrices."""
_RECURRENT = ("GRU", "LSTM", "RNN")


def macs_of(model: Model, node: Any) -> int:
    """Multiply-accumulates of a node: of products and recurrent operators, padded taps counted; 0 of any other.

    Also 0 where shapes are not known, and of what the bodies of control flow compute, which run any number of times.
    """
    domain, kind = key = key_of(node)
    recurrent = domain == "" and kind in _RECURRENT
    places = (0, 1, 2) if recurrent else _OPERANDS.get(key)
    if places is None:
        return 0
    known = [model.types.get(name) for name in (*(node.input[place] for place in places), node.output[0])]
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


def quantised_products(model: Model) -> set[int]:
    """The numbers of products whose data and weights are numbers of 8 bits, however these have been moved."""
    makers = {name: node for node in model.nodes for name in node.output if name}
    found = set[int]()
    for number, node in enumerate(model.nodes):
        places = _OPERANDS.get(key_of(node))
        of_bytes = node.op_type.endswith("Integer") or node.op_type.startswith("Q")
        if places is not None and (of_bytes or all(_is_dequantised(node.input[place], makers) for place in places)):
            found.add(number)
    return found


def _is_dequantised(name: str, makers: Mapping[str, Any]) -> bool:
    """Whether numbers come of DequantizeLinear, and have only been moved or rectified since."""
    ahead = [name]
    while ahead:
        node = makers.get(ahead.pop())
        if node is None:
            return False
        if key_of(node) != ("", "DequantizeLinear"):
            data = node.input[:1] if key_of(node) == ("", "Relu") else data_of(node)
            if not data:
                return False
            ahead += data
    return True
