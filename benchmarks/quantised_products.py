"""Multiply-accumulates of a model's quantised products: of such as read nothing but dequantised operands."""

from math import prod
from typing import Any

import lathe as lt
from lathe.frontend.onnx.reading import Model, attributes_of

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def left_to_the_host(network: lt.Network, result: lt.NetworkResult) -> int:
    """Multiply-accumulates of quantised products whose rows are the host's."""
    model = network.model
    hosts = {row.name for row in result.layers if row.where == "host"}
    dequantised = {name for node in model.nodes if node.op_type == "DequantizeLinear" for name in node.output}
    return sum(
        macs_of(model, node)
        for node in model.nodes
        if node.op_type in PRODUCTS and {*node.input[:2]} <= dequantised and (node.name or node.output[0]) in hosts
    )


def macs_of(model: Model, node: Any) -> int:
    """Of one product, padded taps counted."""
    data, weights, made = (model.types[name].shape for name in (*node.input[:2], node.output[0]))
    if node.op_type == "Conv":
        return prod(made) * prod(weights[1:])
    if node.op_type == "ConvTranspose":
        return prod(data) * prod(weights[1:])
    return prod(made) * data[-2 if attributes_of(node).get("transA", 0) else -1]
