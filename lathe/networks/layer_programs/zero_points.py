"""Products of data whose zero point is computed: it stands in channels of its own, with weights that take it away.

Σ (x - z) w = Σ x w - z Σ w: the sum of a filter's weights is split over as many weights of int8 as it takes, whose data
are all the zero point. Borders hold 0 in these channels, too, so that they add nothing.
"""

from dataclasses import replace
from typing import TypeGuard

import numpy as np

from lathe.frontend.onnx.layers import Conv, Layer, Product, Quantisation
from lathe.networks.values import Array

MOST = 127
"""The greatest weight of a zero point."""


def has_zero_point(layer: Layer) -> TypeGuard[Conv | Product]:
    """Whether a layer reads the zero point of its data."""
    return isinstance(layer, Conv | Product) and len(layer.inputs) > 1


def channels_of_zero_point(layer: Conv | Product) -> int:
    """As many as the sums of all weights of a tap take."""
    return -(-int(np.abs(_sums(layer.weights)).max(initial=0)) // MOST)


def without_zero_point(layer: Conv | Product, extra: int) -> Conv | Product:
    """The layer with weights for so many channels that hold the zero point, of int8 data without one."""
    left = -_sums(layer.weights)
    parts = list[Array]()
    for _ in range(extra):
        parts.append(np.clip(left, -MOST, MOST))
        left = left - parts[-1]
    assert not left.any(), f"{layer.name} takes more channels than {extra} for its zero point"
    weights = np.concatenate([layer.weights, *(part.astype(np.int16) for part in parts)], axis=1)
    return replace(layer, inputs=layer.inputs[:1], of_inputs=(Quantisation(1.0, 0, "int8"),), weights=weights)


def _sums(weights: Array) -> Array:
    """Of each filter and tap, over channels."""
    sums: Array = weights.astype(np.int64).sum(axis=1, keepdims=True)
    return sums
