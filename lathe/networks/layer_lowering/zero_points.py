"""Convolutions and matmuls of data with a computed zero point, which is in additional channels with negative weights.

Σ (x - z) w = Σ x w - z Σ w: the zero point z is copied to as many channels as int8 weights are needed to sum to -Σ w.
Padding is 0 in these channels, too, so that it adds nothing.
"""

from dataclasses import replace
from typing import TypeGuard

import numpy as np

from lathe.frontend import compute, select
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.onnx.quant_graph import Conv, Layer, Product, Quantisation
from lathe.networks.layer_lowering.context import Context
from lathe.networks.lowered_values import Array, Value, computed

MOST = 127
"""The largest weight of a zero-point channel."""


def has_zero_point(layer: Layer) -> TypeGuard[Conv | Product]:
    """Whether a layer has the zero point of its data as an input."""
    return isinstance(layer, Conv | Product) and len(layer.inputs) > 1


def channels_of_zero_point(layer: Conv | Product) -> int:
    """The number of zero-point channels that a layer's weights need."""
    return -(-int(np.abs(_sums(layer.weights)).max(initial=0)) // MOST)


def absorb_zero_point(layer: Conv | Product, extra: int, between: int = 0) -> Conv | Product:
    """The layer with weights for ``extra`` zero-point channels, on int8 data without a zero point.

    ``between``: padding channels before them.
    """
    rest = -_sums(layer.weights)
    parts = [np.zeros_like(rest)] * between
    for _ in range(extra):
        parts.append(np.clip(rest, -MOST, MOST))
        rest = rest - parts[-1]
    assert not rest.any(), f"{layer.name} needs more than {extra} channels for its zero point"
    weights = np.concatenate([layer.weights, *(part.astype(np.int16) for part in parts)], axis=1)
    return replace(layer, inputs=layer.inputs[:1], input_quants=(Quantisation(1.0, 0, "int8"),), weights=weights)


def append_zero_point(data: Value, zero_point: Value, extra: int, context: Context, *, is_image: bool) -> Value:
    """Data computed by layers, with the zero point appended in ``extra`` channels, or columns, from a vector boundary.

    ``zero_point`` is (1,), or (lanes,) with a copy in each lane.
    """
    data, lanes = data.in_layout(f"{context.name}.laid", context.lanes, is_image=is_image), context.lanes
    if zero_point.shape != (lanes,):
        one = zero_point
        zero_point = computed((lanes,), lambda i: one.at((i * 0,)), f"{context.name}.point", lanes, is_image=False)
    own, first = data.width, -(-data.width // lanes) * lanes

    def element(*i: Expr) -> Expr:
        offset = i[-1] - first
        point = zero_point.tensor[(offset % lanes if extra > lanes else offset,)]
        between = select(i[-1] < first, 0, point) if first > own else point
        return select(i[-1] < own, data.tensor[i], between)

    made = compute((*data.tensor.shape[:-1], first + extra), element, f"{context.name}.data")
    if not is_image:
        return Value(made, made.shape, is_image=False)
    positions = (*(data.positions or range(data.shape[1])), *range(first, first + extra))
    return Value(made, (data.shape[0], data.shape[1] + extra, *data.shape[2:]), is_image=True, positions=positions)


def _sums(weights: Array) -> Array:
    """The sums over input channels of weights (M, C, ...), with extent 1."""
    sums: Array = weights.astype(np.int64).sum(axis=1, keepdims=True)
    return sums
