"""Layers that another layer does with its own: clips, functions of functions, and parts of a product's filters.

Two tables one behind the other are one, whatever else reads the first. A rectifier behind a convolution is its own
layer where the quantiser has put 8 bits between them. Where both read their 8 bits alike, rescaling saturates at the
zero point, and one pass does both. A part of the filters of a product that nobody else reads has fewer weights.
"""

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.quant_graph import (
    AveragePool,
    Conv,
    ConvTranspose,
    Layer,
    Lookup,
    Mean,
    Product,
    Slice,
    Sum,
    TensorProduct,
    Times,
)
from lathe.frontend.onnx.value_types import TensorType

_RESCALES = (AveragePool, Conv, ConvTranspose, Mean, Product, Sum, TensorProduct, Times)


def with_tables_joined(layers: dict[str, Layer]) -> dict[str, Layer]:
    """The layers by what they make, in their order, functions of functions as one; the inner ones are left, too."""
    found: dict[str, Layer] = {}
    for name, layer in layers.items():
        inner = found.get(layer.inputs[0])
        if isinstance(layer, Lookup) and isinstance(inner, Lookup) and _joins(inner, layer):
            nodes = tuple(sorted({*inner.nodes, *layer.nodes}))
            table = _behind(inner.table, layer.table)
            axis = inner.axis if inner.table.ndim > 1 else layer.axis
            layer = replace(layer, inputs=inner.inputs, of_inputs=inner.of_inputs, table=table, axis=axis, nodes=nodes)
        found[name] = layer
    return found


def _joins(inner: Lookup, outer: Lookup) -> bool:
    """Whether two functions are one: with a function for each index of a dimension, of the same one."""
    return 1 in (inner.table.ndim, outer.table.ndim) or inner.axis == outer.axis


def _behind(inner: NDArray[Any], outer: NDArray[Any]) -> NDArray[Any]:
    """The table of one function after another, either perhaps with one for each channel."""
    places = inner.astype(np.int64) - np.iinfo(inner.dtype).min
    if outer.ndim == 1:
        return outer[places]
    along = places if places.ndim == 2 else places[:, np.newaxis]
    return outer[along, np.arange(outer.shape[1])]


def with_clips_folded(layers: dict[str, Layer], read_elsewhere: set[str], named: Container[str]) -> dict[str, Layer]:
    """The layers by what they make, with rectifiers folded; tensors ``read_elsewhere`` are made as they are.

    What becomes part of a layer whose result is not ``named``, and so nothing that the host can read, is left, too.
    """
    found = dict(layers)
    for layer in layers.values():
        if not isinstance(layer, Lookup) or not _rectifies(layer):
            continue
        maker = _made_for(layer, found, read_elsewhere)
        if isinstance(maker, _RESCALES):
            _fold(found, maker, layer, replace(maker, relu=True), named)
    return found


def with_parts_folded(
    layers: dict[str, Layer], types: Mapping[str, TensorType], read_elsewhere: set[str], named: Container[str]
) -> dict[str, Layer]:
    """The layers by what they make, where parts of filters are all that is read of a product with these filters alone.

    ``read_elsewhere`` and ``named`` as for clips.
    """
    found = dict(layers)
    for layer in layers.values():
        maker = _made_for(layer, found, read_elsewhere) if isinstance(layer, Slice) else None
        if not isinstance(layer, Slice) or not isinstance(maker, Conv | Product):
            continue
        before, after = types[maker.output].shape, types[layer.output].shape
        axis = len(before) - 1 if isinstance(maker, Product) else 1
        if any(n != axis and sizes[0] != sizes[1] for n, sizes in enumerate(zip(before, after, strict=True))):
            continue
        if isinstance(maker, Conv) and maker.groups > 1:
            continue
        chosen = layer.starts[axis] + layer.steps[axis] * np.arange(after[axis])
        part = replace(
            maker, weights=maker.weights[chosen], weight_scale=maker.weight_scale[chosen],
            bias=maker.bias[..., chosen], rest=None if maker.rest is None else maker.rest[..., chosen],
        )  # fmt: skip
        _fold(found, maker, layer, part, named)
    return found


def _made_for(layer: Layer, layers: Mapping[str, Layer], read_elsewhere: set[str]) -> Layer | None:
    """The layer that makes what another one reads, if nobody else does."""
    source = layer.inputs[0]
    users = [each for each in layers.values() if source in each.inputs]
    return None if source in read_elsewhere or users != [layer] else layers.get(source)


def _fold(found: dict[str, Layer], maker: Layer, layer: Layer, made: Layer, named: Container[str]) -> None:
    """Have what one layer makes of another's result made at once."""
    if layer.output in named:
        del found[maker.output]
    nodes = tuple(sorted({*maker.nodes, *layer.nodes}))
    found[layer.output] = replace(made, output=layer.output, nodes=nodes)


def _rectifies(layer: Lookup) -> bool:
    """Whether a function is its argument from the zero point on, and the zero point below."""
    (before,), after = layer.of_inputs, layer.of_output
    if before != after:
        return False
    limits = np.iinfo(before.dtype)
    values = np.arange(limits.min, limits.max + 1)
    return layer.table.ndim == 1 and np.array_equal(layer.table.astype(np.int64), np.maximum(values, before.zero_point))
