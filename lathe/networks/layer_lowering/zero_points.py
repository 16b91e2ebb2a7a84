"""Products of data whose zero point is computed: it stands in channels of its own, with weights that take it away.

Σ (x - z) w = Σ x w - z Σ w: the sum of a filter's weights is split over as many weights of int8 as it takes, whose data
are all the zero point. Borders hold 0 in these channels, too, so that they add nothing.
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
"""The greatest weight of a zero point."""


def has_zero_point(layer: Layer) -> TypeGuard[Conv | Product]:
    """Whether a layer reads the zero point of its data."""
    return isinstance(layer, Conv | Product) and len(layer.inputs) > 1


def channels_of_zero_point(layer: Conv | Product) -> int:
    """As many as the sums of all weights of a tap take."""
    return -(-int(np.abs(_sums(layer.weights)).max(initial=0)) // MOST)


def without_zero_point(layer: Conv | Product, extra: int, between: int = 0) -> Conv | Product:
    """The layer with weights for so many channels that hold the zero point, of int8 data without one.

    ``between``: channels of nobody before them.
    """
    left = -_sums(layer.weights)
    parts = [np.zeros_like(left)] * between
    for _ in range(extra):
        parts.append(np.clip(left, -MOST, MOST))
        left = left - parts[-1]
    assert not left.any(), f"{layer.name} takes more channels than {extra} for its zero point"
    weights = np.concatenate([layer.weights, *(part.astype(np.int16) for part in parts)], axis=1)
    return replace(layer, inputs=layer.inputs[:1], of_inputs=(Quantisation(1.0, 0, "int8"),), weights=weights)


def beside_zero_point(data: Value, zero_point: Value, extra: int, context: Context, *, is_image: bool) -> Value:
    """Data that layers have made, with the zero point in ``extra`` channels, or columns, of whole elements behind.

    ``zero_point`` is (1,), or has a copy in each lane, of which one element is made otherwise.
    """
    data, lanes = data.laid_out(f"{context.name}.laid", context.lanes, is_image=is_image), context.lanes
    if zero_point.shape != (lanes,):
        one = zero_point
        zero_point = computed((lanes,), lambda i: one.at((i * 0,)), f"{context.name}.point", lanes, is_image=False)
    own, first = data.width, -(-data.width // lanes) * lanes

    def element(*i: Expr) -> Expr:
        behind = i[-1] - first
        point = zero_point.tensor[(behind % lanes if extra > lanes else behind,)]
        between = select(i[-1] < first, 0, point) if first > own else point
        return select(i[-1] < own, data.tensor[i], between)

    made = compute((*data.tensor.shape[:-1], first + extra), element, f"{context.name}.data")
    if not is_image:
        return Value(made, made.shape, is_image=False)
    places = (*(data.places or range(data.shape[1])), *range(first, first + extra))
    return Value(made, (data.shape[0], data.shape[1] + extra, *data.shape[2:]), is_image=True, places=places)


def _sums(weights: Array) -> Array:
    """Of each filter and tap, over channels."""
    sums: Array = weights.astype(np.int64).sum(axis=1, keepdims=True)
    return sums
