"""Dispatch of lowering by the kind of layer."""

from collections.abc import Callable, Mapping

from lathe.frontend.onnx.quant_graph import Layer
from lathe.networks.layer_lowering.context import Context
from lathe.networks.layer_lowering.convolutions import CONVOLUTIONS
from lathe.networks.layer_lowering.data_movement import DATA_MOVEMENT
from lathe.networks.layer_lowering.elementwise import ELEMENTWISE
from lathe.networks.layer_lowering.matmul import MATMULS
from lathe.networks.layer_lowering.pools import POOLS
from lathe.networks.lowered_values import Value

_PROGRAMS: Mapping[type[Layer], Callable[..., Value]] = {
    **CONVOLUTIONS,
    **ELEMENTWISE,
    **DATA_MOVEMENT,
    **POOLS,
    **MATMULS,
}


def program_of_layer(layer: Layer, data: tuple[Value, ...], context: Context) -> Value:
    """Lower a layer to its result. Raises TensorError if the tensor language cannot express it."""
    return _PROGRAMS[type(layer)](layer, data, context)
