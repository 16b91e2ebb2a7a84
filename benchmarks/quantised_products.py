"""Multiply-accumulates of a model's quantised products: of such as read nothing but 8 bits, or numbers of such."""

import lathe as lt
from lathe.frontend.onnx.mac_counts import quantised_products

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def left_to_the_host(network: lt.Network, result: lt.NetworkResult) -> int:
    """Multiply-accumulates of quantised products whose rows are the host's."""
    nodes = network.model.nodes
    names = {nodes[number].name or nodes[number].output[0] for number in quantised_products(network.model)}
    return sum(row.macs for row in result.layers if row.where == "host" and row.name in names)
