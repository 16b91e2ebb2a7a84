"""Lowering of convolutions and transposed convolutions."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lathe.frontend import Tensor, compute, reduce_axis, select, sum
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.onnx.quant_graph import Conv, ConvTranspose, Layer
from lathe.frontend.operators import conv2d, depthwise_conv2d, pad2d
from lathe.networks.layer_lowering.context import Context, elements_of, padded
from lathe.networks.layer_lowering.padding_correction import SumsOfWeights, TapRegions, tap_regions
from lathe.networks.layer_lowering.rescaling import results_of, terms_of
from lathe.networks.lowered_values import Array, Value, computed, padded_channels


def _conv(layer: Conv, data: tuple[Value, ...], context: Context) -> Value:
    top, left, bottom, right = layer.pads
    image = context.as_image(data[0])
    options: dict[str, Any] = {
        "stride": layer.strides,
        "padding": ((top, bottom), (left, right)),
        "pad_value": layer.input_quants[0].int8_zero_point,
        "dilation": layer.dilations,
    }
    regions = None
    if layer.input_quants[0].int8_zero_point and layer.output_quant.dtype != "int32":
        regions = tap_regions(layer, image.image_shape, context.image_shape)
        options["pad_value"] = 0  # its contribution is in the biases
    return _convolved(layer, image, options, context, regions)


def _convolved(
    layer: Conv | ConvTranspose,
    image: Value,
    options: dict[str, Any],
    context: Context,
    regions: TapRegions | None = None,
) -> Value:
    """The layer's convolution of an image; ``regions``: regions of equal bias, if the padding is zeros."""
    filters, depth = layer.weights.shape[:2]
    per_filter = SumsOfWeights.of(layer.weights, regions)
    terms = terms_of(layer.weights)
    if layer.groups == image.shape[1] == filters and depth == 1 and layer.groups > 1 and len(terms) == 1:
        weights = context.constant("weights", image.spread(terms[0][:, 0].transpose(1, 2, 0), 2))
        made = results_of(
            layer, lambda name: depthwise_conv2d(image.tensor, weights, name=name, **options), per_filter, context,
            like=image,
        )  # fmt: skip
        return context.image(made[0], image.positions, made[1:])
    if layer.groups > 1:
        placed = [term.transpose(0, 2, 3, 1) for term in terms]
        sums = _sums(image.dense(f"{context.name}.data").tensor, placed, layer.groups, options, context)
        parts = [context.image(each) for each in results_of(layer, sums, per_filter, context, f"{context.name}.dense")]
        names = [f"{context.name}.whole{number}" if number else context.name for number in range(len(parts))]
        whole = [
            computed(context.shape, elements_of(part), name, context.lanes, is_image=True).tensor
            for part, name in zip(parts, names, strict=True)
        ]
        return context.image(whole[0], more=tuple(whole[1:]))
    wide = padded_channels(filters, context.lanes)
    placed = [padded(image.spread(term.transpose(0, 2, 3, 1), 3), 0, wide) for term in terms]
    made = results_of(layer, _sums(image.tensor, placed, 1, options, context), per_filter, context)
    return context.image(made[0], more=made[1:])


def _sums(
    image: Tensor, terms: list[Array], groups: int, options: dict[str, Any], context: Context
) -> Callable[[str], Tensor]:
    """A builder, by stage name, of the convolution with weights (M, KH, KW, C / groups), the sum of ``terms``."""
    if len(terms) == 1:
        plain = context.constant("weights", terms[0])
        return lambda name: conv2d(image, plain, groups=groups, name=name, **options)
    weights = context.constant("weights", np.stack(terms))
    count, filters, high, wide, depth = weights.shape
    (down, along), (apart_y, apart_x) = options.get("stride", (1, 1)), options.get("dilation", (1, 1))
    source = image
    if "padding" in options:
        source = pad2d(image, options["padding"], value=options["pad_value"], name=f"{context.name}.border")
    batch, height, width, _ = source.shape
    rows = (height - (high - 1) * apart_y - 1) // down + 1
    columns = (width - (wide - 1) * apart_x - 1) // along + 1
    names = ("term", "ry", "rx", "rc")
    term, ry, rx, rc = (
        reduce_axis(extent, name) for extent, name in zip(weights.shape[:1] + weights.shape[2:], names, strict=True)
    )

    def element(n: Expr, y: Expr, x: Expr, o: Expr) -> Expr:
        channel = rc + 0 if groups == 1 else o // (filters // groups) * depth + rc
        pixel = source[n, y * down + ry * apart_y, x * along + rx * apart_x, channel]
        return sum(pixel.astype("int32") * weights[term, o, ry, rx, rc].astype("int32"), axis=(term, ry, rx, rc))

    return lambda name: compute((batch, rows, columns, filters), element, name)


def _conv_transpose(layer: ConvTranspose, data: tuple[Value, ...], context: Context) -> Value:
    """A convolution with flipped weights of the data with zeros inserted between its pixels."""
    value, (quant,) = context.as_image(data[0]), layer.input_quants
    image = value.tensor
    n, height, width, channels = image.shape
    down, along = layer.strides
    reaches = [(taps - 1) * apart for taps, apart in zip(layer.weights.shape[2:], layer.dilations, strict=True)]
    top, left = (reach - first for reach, first in zip(reaches, layer.before, strict=True))
    rows, columns = (count + reach for count, reach in zip(context.image_shape[2:], reaches, strict=True))

    def element(n: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
        at_y, at_x = y - top, x - left
        inside = (at_y >= 0) & (at_y < (height - 1) * down + 1) & (at_x >= 0) & (at_x < (width - 1) * along + 1)
        if down > 1:
            inside = inside & (at_y % down == 0)
        if along > 1:
            inside = inside & (at_x % along == 0)
        return select(inside, image[n, at_y // down, at_x // along, c], quant.int8_zero_point)

    dilated = compute((n, rows, columns, channels), element, f"{context.name}.spread")
    spaced = Value(dilated, (n, value.shape[1], rows, columns), is_image=True, positions=value.positions)
    return _convolved(layer, spaced, {"dilation": layer.dilations}, context)


CONVOLUTIONS: Mapping[type[Layer], Callable[..., Value]] = {Conv: _conv, ConvTranspose: _conv_transpose}
