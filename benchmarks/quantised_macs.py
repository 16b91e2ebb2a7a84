"""MACs of a model's quantised layers with weights, which read only quantised values."""

import lathe as lt
from lathe.frontend.onnx.mac_counts import quantised_mac_nodes

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def left_to_the_host(network: lt.Network, result: lt.NetworkResult) -> int:
    """MACs of quantised layers that run on the host CPU."""
    nodes = network.model.nodes
    names = {nodes[number].name or nodes[number].output[0] for number in quantised_mac_nodes(network.model)}
    return sum(row.macs for row in result.layers if row.where == "host" and row.name in names)
