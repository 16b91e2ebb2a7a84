"""Comparison of each NPU layer with onnxruntime's nodes for it, both on onnxruntime's values of its inputs.

onnxruntime computes QDQ layers in float32. An exact result can be a half, for example if one scale is twice another;
float32 rounds it either way, an integer layer to even. Such values are counted separately. For float results, the unit
of a difference is 2⁻¹⁸ of the largest value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import reference
from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.quant_graph import Layer
from lathe.frontend.onnx.reading import Model
from lathe.frontend.onnx.run_host_nodes import run_on_host
from lathe.networks.lowering import lowered
from lathe.networks.network import Network

Array = NDArray[Any]


@dataclass(frozen=True)
class LayerCompared:
    """A layer, its number of values, the share that equals onnxruntime's, and the largest difference in units.

    ``halves``: the share that differs, but is a half before rounding within the accuracy of float32.
    """

    name: str
    kind: str
    values: int
    equal: float
    halves: float
    largest: int


def layers_compared(network: Network, inputs: Mapping[str, Array]) -> list[LayerCompared]:
    """Compare all layers of a network, in order.

    Their values are those of ``reference``, which simulator and RTL equal. Raises ModelError if onnxruntime cannot run
    the model.
    """
    model, layers = network.model, network.found.layers
    named = {*model.inputs, *(name for node in model.nodes for name in node.output)}
    names = {name for layer in layers.values() for name in (*layer.inputs, layer.output) if name in named}
    arrays = values_inside(model, inputs, tuple(sorted(names)))
    found = []
    for layer in layers.values():
        for name in layer.inputs:
            if name not in arrays:  # a requantised tensor that is not in the model
                arrays[name] = _made(model, layers[name], arrays)
        if layer.output in named:
            found.append(_compared(model, layer, arrays))
    return found


def values_inside(model: Model, inputs: Mapping[str, Array], names: tuple[str, ...]) -> dict[str, Array]:
    """onnxruntime's values of any tensors of a model, without graph optimisations."""
    onnx = optional_import("onnx")
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    return run_on_host(proto.SerializeToString(), inputs, names)


def _made(model: Model, layer: Layer, arrays: Mapping[str, Array]) -> Array:
    program = lowered((layer,), tuple(dict.fromkeys(layer.inputs)), (layer.output,), model.types)
    given = {binding.name: binding.to_machine(arrays) for binding in program.inputs}
    (binding,) = program.outputs
    return binding.from_machine(reference(program.results, {**given, **program.constants}))


def _compared(model: Model, layer: Layer, arrays: Mapping[str, Array]) -> LayerCompared:
    made, expected = _made(model, layer, arrays), arrays[layer.output]
    if layer.float_sums is None:
        error = np.abs(made.astype(np.int64) - expected.astype(np.int64))
    else:
        unit = float(np.abs(expected).max(initial=0)) * FLOAT_UNIT or 1.0
        error = np.rint(np.abs(made.astype(np.float64) - expected) / unit).astype(np.int64)
    off = error > 0
    # A half is rounded differently with a slightly smaller and a slightly larger scale.
    rounded = layer.float_sums is None and np.any(off)
    either = (
        [_made(model, _scaled(layer, by), arrays) for by in (1 - FLOAT32_ERROR, 1 + FLOAT32_ERROR)]
        if rounded
        else [made, made]
    )
    halves = off & (either[0] != either[1])
    return LayerCompared(
        layer.name, type(layer).__name__, error.size, _share(~off, 1.0), _share(halves, 0.0), int(error.max(initial=0))
    )


FLOAT32_ERROR = 2.0**-20
"""The relative error of float32 sums."""

FLOAT_UNIT = 2.0**-18
"""The unit of differences of float results, relative to their largest value: sums are added in any order."""


def _scaled(layer: Layer, by: float) -> Layer:
    return replace(layer, output_quant=replace(layer.output_quant, scale=layer.output_quant.scale * by))


def _share(chosen: NDArray[np.bool_], of_none: float) -> float:
    return float(np.mean(chosen)) if chosen.size else of_none
