"""Sums of products, brought to the 8 bits of a layer's output."""

import numpy as np

from lathe.frontend import Tensor, rescale_parameters
from lathe.frontend.onnx.layers import Conv, ConvTranspose, Product
from lathe.frontend.operators import requantise
from lathe.networks.layer_programs.context import Context, padded, wrapped
from lathe.networks.values import Array, Value


def rescaled_sums(
    layer: Conv | ConvTranspose | Product,
    sums: Tensor,
    per_filter: Array,
    context: Context,
    name: str = "",
    like: Value | None = None,
) -> Tensor:
    """Sums of products as values of the output; ``per_filter`` are the sums of each filter's weights.

    Filters lie as the channels of ``like`` do, or else one behind the other.
    """
    (how,), made = layer.of_inputs, layer.of_output
    bias = wrapped(layer.bias - how.own_zero * per_filter)
    factors = rescale_parameters(how.scale * layer.weight_scale / made.scale, bias)
    placed = padded(factors, 0, sums.shape[-1]) if like is None else like.spread(factors, 0)
    return requantise(
        sums, parameters=context.constant("factors", placed), zero_point=made.own_zero, relu=layer.relu,
        name=name or context.name,
    )  # fmt: skip


def terms_of(weights: Array) -> list[Array]:
    """Weights of int8 whose sum some weights are, of -255 to 255: themselves, if they can be."""
    terms, rest = list[Array](), weights.astype(np.int64)
    while not terms or np.any(rest):
        terms.append(np.clip(rest, -128, 127).astype(np.int8))
        rest = rest - terms[-1]
    return terms
