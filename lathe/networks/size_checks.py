"""Tensors that a machine cannot hold, refused by the name of the node before anything is built."""

from collections.abc import Iterable, Mapping
from math import prod

from lathe.configs import HardwareConfig
from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.quant_graph import Layer
from lathe.frontend.onnx.value_types import TensorType
from lathe.isa.table import Opcode, placements


def check_sizes(layers: Iterable[Layer], types: Mapping[str, TensorType], config: HardwareConfig) -> None:
    """Raises ModelError for a layer one of whose tensors is larger than what instructions can name."""
    most = config.uop_element_bytes * (placements(config, Opcode.LOAD)["dram_base"].highest + 1)
    for layer in layers:
        for tensor in (*layer.inputs, layer.output):
            size = prod(types[tensor].shape)  # of 8 bits each
            if size > most:
                raise ModelError(
                    f"tensor {tensor!r} of node {layer.name!r} must take at most {most} bytes, as much as machine "
                    f"{config.name!r} can name, not {size}."
                )
