"""Each layer of the NPU beside onnxruntime's nodes for it, both fed with onnxruntime's own values of its inputs.

Onnxruntime computes QDQ layers in float32. Of a result that is a half, which happens where one scale is twice another,
float32 comes to lie on either side by chance, while a layer of whole numbers rounds it to the even number. Such values
are counted apart. Of results in floating point a unit is 2⁻¹⁸ of the greatest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import reference
from lathe.frontend.onnx.optional_imports import extra
from lathe.frontend.onnx.quant_graph import Layer
from lathe.frontend.onnx.reading import Model
from lathe.frontend.onnx.run_host_nodes import run_on_host
from lathe.networks.lowering import lowered
from lathe.networks.network import Network

Array = NDArray[Any]


@dataclass(frozen=True)
class LayerCompared:
    """A layer, its number of values, the share of them that is onnxruntime's, the largest difference in units.

    ``halves``: the share that is not, but as close to a half as float32 tells.
    """

    name: str
    kind: str
    values: int
    equal: float
    halves: float
    largest: int


def layers_compared(network: Network, inputs: Mapping[str, Array]) -> list[LayerCompared]:
    """All layers of a network, in their order.

    Values are what layers mean (``reference``), which simulator and RTL equal. Raises ModelError where onnxruntime
    does not run the model.
    """
    model, layers = network.model, network.found.layers
    named = {*model.inputs, *(name for node in model.nodes for name in node.output)}
    wanted = {name for layer in layers.values() for name in (*layer.inputs, layer.output) if name in named}
    arrays = values_inside(model, inputs, tuple(sorted(wanted)))
    found = []
    for layer in layers.values():
        for name in layer.inputs:
            if name not in arrays:  # a tensor brought to another scale before, which stands in no model
                arrays[name] = _made(model, layers[name], arrays)
        if layer.output in named:
            found.append(_compared(model, layer, arrays))
    return found


def values_inside(model: Model, inputs: Mapping[str, Array], names: tuple[str, ...]) -> dict[str, Array]:
    """What onnxruntime makes of any tensors of a model, its graph optimisations off."""
    onnx = extra("onnx")
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    return run_on_host(proto.SerializeToString(), inputs, names)


def _made(model: Model, layer: Layer, arrays: Mapping[str, Array]) -> Array:
    program = lowered((layer,), tuple(dict.fromkeys(layer.inputs)), (layer.output,), model.types)
    given = {port.name: port.to_machine(arrays) for port in program.inputs}
    (port,) = program.outputs
    return port.from_machine(reference(program.results, {**given, **program.constants}))


def _compared(model: Model, layer: Layer, arrays: Mapping[str, Array]) -> LayerCompared:
    made, wanted = _made(model, layer, arrays), arrays[layer.output]
    if layer.in_float is None:
        apart = np.abs(made.astype(np.int64) - wanted.astype(np.int64))
    else:
        unit = float(np.abs(wanted).max(initial=0)) * FLOAT_UNIT or 1.0
        apart = np.rint(np.abs(made.astype(np.float64) - wanted) / unit).astype(np.int64)
    off = apart > 0
    # Results come to lie on one side of a half and on the other, when the scale is a little smaller and larger.
    rounded = layer.in_float is None and np.any(off)
    either = [_made(model, _scaled(layer, by), arrays) for by in (1 - NEAR, 1 + NEAR)] if rounded else [made, made]
    halves = off & (either[0] != either[1])
    return LayerCompared(
        layer.name, type(layer).__name__, apart.size, _share(~off, 1.0), _share(halves, 0.0), int(apart.max(initial=0))
    )


NEAR = 2.0**-20
"""How far float32 may be from the sum of some products, relative to it."""

FLOAT_UNIT = 2.0**-18
"""What a difference of one is of results in floating point, relative to their greatest: sums are added in any order."""


def _scaled(layer: Layer, by: float) -> Layer:
    return replace(layer, of_output=replace(layer.of_output, scale=layer.of_output.scale * by))


def _share(chosen: NDArray[np.bool_], of_none: float) -> float:
    return float(np.mean(chosen)) if chosen.size else of_none
