"""Layers that another layer does with its own: clips, and functions of functions.

Two tables one behind the other are one, whatever else reads the first. A rectifier behind a convolution is its own
layer where the quantiser has put 8 bits between them. Where both read their 8 bits alike, rescaling saturates at the
zero point, and one pass does both.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.layers import (
    AveragePool,
    Conv,
    ConvTranspose,
    Layer,
    Lookup,
    Mean,
    Product,
    Sum,
    TensorProduct,
    Times,
)

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


def with_clips_folded(layers: dict[str, Layer], read_elsewhere: set[str]) -> dict[str, Layer]:
    """The layers by what they make, with rectifiers folded; tensors ``read_elsewhere`` are made as they are."""
    found = dict(layers)
    for layer in layers.values():
        if not isinstance(layer, Lookup) or not _rectifies(layer):
            continue
        (source,) = layer.inputs
        maker = found.get(source)
        users = [each for each in found.values() if source in each.inputs]
        if not isinstance(maker, _RESCALES) or source in read_elsewhere or users != [layer]:
            continue
        del found[source]
        found[layer.output] = replace(
            maker, output=layer.output, relu=True, nodes=tuple(sorted({*maker.nodes, *layer.nodes}))
        )
    return found


def _rectifies(layer: Lookup) -> bool:
    """Whether a function is its argument from the zero point on, and the zero point below."""
    (before,), after = layer.of_inputs, layer.of_output
    if before != after:
        return False
    limits = np.iinfo(before.dtype)
    values = np.arange(limits.min, limits.max + 1)
    return layer.table.ndim == 1 and np.array_equal(layer.table.astype(np.int64), np.maximum(values, before.zero_point))
