"""Convolutions, and transposed ones."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lathe.frontend import compute, select
from lathe.frontend.onnx.layers import Conv, ConvTranspose, Layer
from lathe.frontend.operand import Expr
from lathe.frontend.operators import conv2d, depthwise_conv2d
from lathe.networks.layer_programs.context import Context, padded
from lathe.networks.layer_programs.rescaling import rescaled_sums
from lathe.networks.values import Value, computed, filled


def _conv(layer: Conv, data: tuple[Value, ...], context: Context) -> Value:
    image = context.as_image(data[0])
    top, left, bottom, right = layer.pads
    options: dict[str, Any] = {
        "stride": layer.strides,
        "padding": ((top, bottom), (left, right)),
        "pad_value": layer.of_inputs[0].own_zero,
        "dilation": layer.dilations,
        "name": f"{context.name}.sums",
    }
    filters, depth = layer.weights.shape[:2]
    per_filter = layer.weights.astype(np.int64).sum(axis=(1, 2, 3))
    if layer.groups == image.shape[1] == filters and depth == 1 and layer.groups > 1:
        weights = context.constant("weights", image.spread(layer.weights[:, 0].transpose(1, 2, 0), 2))
        sums = depthwise_conv2d(image.tensor, weights, **options)
        return context.image(rescaled_sums(layer, sums, per_filter, context, like=image), image.places)
    if layer.groups > 1:
        weights = context.constant("weights", layer.weights.transpose(0, 2, 3, 1))
        sums = conv2d(image.dense(f"{context.name}.data").tensor, weights, groups=layer.groups, **options)
        found = rescaled_sums(layer, sums, per_filter, context, f"{context.name}.dense")
        whole = context.image(found)
        return computed(context.shape, lambda *i: whole.at(i), context.name, context.lanes, is_image=True)
    wide = image.spread(layer.weights.transpose(0, 2, 3, 1), 3)
    weights = context.constant("weights", padded(wide, 0, filled(filters, context.lanes)))
    return context.image(rescaled_sums(layer, conv2d(image.tensor, weights, **options), per_filter, context))


def _conv_transpose(layer: ConvTranspose, data: tuple[Value, ...], context: Context) -> Value:
    """A convolution with the weights turned round, of the data with zeros between their pixels."""
    value, (how,) = context.as_image(data[0]), layer.of_inputs
    image = value.tensor
    n, height, width, channels = image.shape
    (down, along), (high, wide) = layer.strides, layer.weights.shape[2:]
    top, left = (taps - 1 - first for taps, first in zip((high, wide), layer.pads[:2], strict=True))
    rows, columns = context.image_shape[2] + high - 1, context.image_shape[3] + wide - 1

    def element(n: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
        at_y, at_x = y - top, x - left
        inside = (at_y >= 0) & (at_y < (height - 1) * down + 1) & (at_x >= 0) & (at_x < (width - 1) * along + 1)
        if down > 1:
            inside = inside & (at_y % down == 0)
        if along > 1:
            inside = inside & (at_x % along == 0)
        return select(inside, image[n, at_y // down, at_x // along, c], how.own_zero)

    spread = compute((n, rows, columns, channels), element, f"{context.name}.spread")
    turned = layer.weights[:, :, ::-1, ::-1].transpose(1, 2, 3, 0)
    per_filter = turned.astype(np.int64).sum(axis=(1, 2, 3))
    placed = padded(value.spread(turned, 3), 0, filled(turned.shape[0], context.lanes))
    sums = conv2d(spread, context.constant("weights", placed), name=f"{context.name}.sums")
    return context.image(rescaled_sums(layer, sums, per_filter, context))


CONVOLUTIONS: Mapping[type[Layer], Callable[..., Value]] = {Conv: _conv, ConvTranspose: _conv_transpose}
