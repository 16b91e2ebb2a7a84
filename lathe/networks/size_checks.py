"""Check of tensor sizes against the machine's DRAM addresses, before a network is built."""

from collections.abc import Iterable, Mapping
from math import prod

from lathe.configs import HardwareConfig
from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.quant_graph import Layer
from lathe.frontend.onnx.value_types import TensorType
from lathe.isa.table import Opcode, placements


def check_sizes(layers: Iterable[Layer], types: Mapping[str, TensorType], config: HardwareConfig) -> None:
    """Raise ModelError for a layer with a tensor that is larger than instructions can address."""
    most = config.uop_element_bytes * (placements(config, Opcode.LOAD)["dram_base"].highest + 1)
    for layer in layers:
        for tensor in (*layer.inputs, layer.output):
            size = prod(types[tensor].shape)  # of 8 bits each
            if size > most:
                raise ModelError(
                    f"tensor {tensor!r} of node {layer.name!r} must have at most {most} bytes, the DRAM that machine "
                    f"{config.name!r} can address, not {size}."
                )
