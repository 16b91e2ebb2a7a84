"""Layer fusion: successive Lookups, Relu into the producer, and slices of output channels into the producer.

Two successive Lookups become one table, whatever else reads the first. A Relu whose input is quantised as its result
becomes saturation at the zero point in the rescaling of its producer. If only a slice of the output channels of a
convolution or matmul is read, the other weights are dropped.
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


def fuse_lookups(layers: dict[str, Layer]) -> dict[str, Layer]:
    """The layers by output, with successive Lookups fused; the inner ones remain for other consumers."""
    found: dict[str, Layer] = {}
    for name, layer in layers.items():
        inner = found.get(layer.inputs[0])
        if isinstance(layer, Lookup) and isinstance(inner, Lookup) and _joins(inner, layer):
            nodes = tuple(sorted({*inner.nodes, *layer.nodes}))
            table = _composed(inner.table, layer.table)
            axis = inner.axis if inner.table.ndim > 1 else layer.axis
            layer = replace(
                layer, inputs=inner.inputs, input_quants=inner.input_quants, table=table, axis=axis, nodes=nodes
            )
        found[name] = layer
    return found


def _joins(inner: Lookup, outer: Lookup) -> bool:
    """Whether two Lookups can be fused: if both have per-index tables, these must be along the same axis."""
    return 1 in (inner.table.ndim, outer.table.ndim) or inner.axis == outer.axis


def _composed(inner: NDArray[Any], outer: NDArray[Any]) -> NDArray[Any]:
    """The table of ``outer`` after ``inner``; each is (256,) or (256, C)."""
    rows = inner.astype(np.int64) - np.iinfo(inner.dtype).min
    if outer.ndim == 1:
        return outer[rows]
    along = rows if rows.ndim == 2 else rows[:, np.newaxis]
    return outer[along, np.arange(outer.shape[1])]


def fuse_relus(layers: dict[str, Layer], read_elsewhere: set[str], named: Container[str]) -> dict[str, Layer]:
    """The layers by output, with Relu fused into its producer unless the tensor in between is ``read_elsewhere``.

    ``named``: the tensors of the original model. Producers of other outputs stay: the host CPU cannot compute these.
    """
    found = dict(layers)
    for layer in layers.values():
        if not isinstance(layer, Lookup) or not _rectifies(layer):
            continue
        producer = _only_producer(layer, found, read_elsewhere)
        if isinstance(producer, _RESCALES):
            _fuse(found, producer, layer, replace(producer, relu=True), named)
    return found


def fuse_channel_slices(
    layers: dict[str, Layer], types: Mapping[str, TensorType], read_elsewhere: set[str], named: Container[str]
) -> dict[str, Layer]:
    """The layers by output, with slices of output channels fused into convolutions and matmuls.

    ``read_elsewhere`` and ``named`` as in ``fuse_relus``.
    """
    found = dict(layers)
    for layer in layers.values():
        producer = _only_producer(layer, found, read_elsewhere) if isinstance(layer, Slice) else None
        if not isinstance(layer, Slice) or not isinstance(producer, Conv | Product):
            continue
        before, after = types[producer.output].shape, types[layer.output].shape
        axis = len(before) - 1 if isinstance(producer, Product) else 1
        if any(n != axis and sizes[0] != sizes[1] for n, sizes in enumerate(zip(before, after, strict=True))):
            continue
        if isinstance(producer, Conv) and producer.groups > 1:
            continue
        chosen = layer.starts[axis] + layer.steps[axis] * np.arange(after[axis])
        part = replace(
            producer, weights=producer.weights[chosen], weight_scale=producer.weight_scale[chosen],
            bias=producer.bias[..., chosen],
            bias_residual=None if producer.bias_residual is None else producer.bias_residual[..., chosen],
        )  # fmt: skip
        _fuse(found, producer, layer, part, named)
    return found


def _only_producer(layer: Layer, layers: Mapping[str, Layer], read_elsewhere: set[str]) -> Layer | None:
    """The producer of a layer's input, if the layer is the only consumer."""
    source = layer.inputs[0]
    users = [each for each in layers.values() if source in each.inputs]
    return None if source in read_elsewhere or users != [layer] else layers.get(source)


def _fuse(found: dict[str, Layer], producer: Layer, layer: Layer, made: Layer, named: Container[str]) -> None:
    """Replace a layer, and its producer, by the fused layer ``made``."""
    if layer.output in named:
        del found[producer.output]
    nodes = tuple(sorted({*producer.nodes, *layer.nodes}))
    found[layer.output] = replace(made, output=layer.output, nodes=nodes)


def _rectifies(layer: Lookup) -> bool:
    """Whether a Lookup is a Relu: the maximum of its input and the zero point."""
    (before,), after = layer.input_quants, layer.output_quant
    if before != after:
        return False
    limits = np.iinfo(before.dtype)
    values = np.arange(limits.min, limits.max + 1)
    return layer.table.ndim == 1 and np.array_equal(layer.table.astype(np.int64), np.maximum(values, before.zero_point))
