"""The program of a layer, by its kind."""

from collections.abc import Callable, Mapping

from lathe.frontend.onnx.layers import Layer
from lathe.networks.layer_programs.context import Context
from lathe.networks.layer_programs.convolutions import CONVOLUTIONS
from lathe.networks.layer_programs.elementwise import ELEMENTWISE
from lathe.networks.layer_programs.moves import MOVES
from lathe.networks.layer_programs.pools import POOLS
from lathe.networks.layer_programs.products import PRODUCTS
from lathe.networks.values import Value

_PROGRAMS: Mapping[type[Layer], Callable[..., Value]] = {**CONVOLUTIONS, **ELEMENTWISE, **MOVES, **POOLS, **PRODUCTS}


def program_of_layer(layer: Layer, data: tuple[Value, ...], context: Context) -> Value:
    """The result of a layer. Raises TensorError for one that the language has no words for."""
    return _PROGRAMS[type(layer)](layer, data, context)
