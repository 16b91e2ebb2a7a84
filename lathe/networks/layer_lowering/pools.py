"""Lowering of MaxPool, AveragePool and Mean."""

from collections.abc import Callable, Mapping
from math import lcm, prod

import numpy as np

from lathe.frontend import Tensor, compute, reduce_axis, rescale_parameters, sum
from lathe.frontend import max as greatest
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.onnx.quant_graph import AveragePool, Layer, MaxPool, Mean
from lathe.frontend.operators import dense, max_pool2d, pad2d, requantise
from lathe.frontend.operators import reshape as reshaped
from lathe.networks.layer_lowering.context import Context
from lathe.networks.lowered_values import IMAGE_RANKS, Value, computed


def _max_pool(layer: MaxPool, data: tuple[Value, ...], context: Context) -> Value:
    image = context.as_image(data[0])
    top, left, bottom, right = layer.pads
    around = ((top, bottom), (left, right))
    if layer.dilations == (1, 1):
        found = max_pool2d(image.tensor, layer.kernel, stride=layer.strides, padding=around, name=context.name)
        return context.image(found, image.positions)
    source = pad2d(image.tensor, around, value=-128, name=f"{context.name}.border") if any(layer.pads) else image.tensor
    _, _, rows, columns = context.image_shape
    (down, along), (apart_y, apart_x) = layer.strides, layer.dilations
    ry, rx = reduce_axis(layer.kernel[0], "ry"), reduce_axis(layer.kernel[1], "rx")
    found = compute(
        (source.shape[0], rows, columns, source.shape[3]),
        lambda n, y, x, c: greatest(source[n, y * down + ry * apart_y, x * along + rx * apart_x, c], axis=(ry, rx)),
        context.name,
    )
    return context.image(found, image.positions)


def _average(layer: AveragePool, data: tuple[Value, ...], context: Context) -> Value:
    """Sums of windows, rescaled to 8 bits by one factor.

    If windows have different numbers of values, each sum is first multiplied by the least common multiple of these
    numbers divided by its own.
    """
    (quant,), made = layer.input_quants, layer.output_quant
    source = context.as_image(data[0])
    image = source.tensor
    if any(layer.pads):
        top, left, bottom, right = layer.pads
        around = ((top, bottom), (left, right))
        image = pad2d(image, around, value=quant.int8_zero_point, name=f"{context.name}.border")
    n, height, width, channels = image.shape
    (high, wide), (down, along), (apart_y, apart_x) = layer.kernel, layer.strides, layer.dilations
    ry, rx = reduce_axis(high, "ry"), reduce_axis(wide, "rx")
    total = compute(
        (n, (height - (high - 1) * apart_y - 1) // down + 1, (width - (wide - 1) * apart_x - 1) // along + 1, channels),
        lambda n, y, x, c: sum(
            image[n, y * down + ry * apart_y, x * along + rx * apart_x, c].astype("int32"), axis=(ry, rx)
        ),
        f"{context.name}.sums",
    )
    cells = high * wide
    bias, divisor = -quant.int8_zero_point * cells, cells
    if layer.divisors is not None:
        divisor = lcm(*np.unique(layer.divisors).tolist())
        multiplicity = np.repeat((divisor // layer.divisors)[..., np.newaxis], channels, axis=-1).astype(np.int32)
        weight, sums = context.constant("often", multiplicity), total
        total = compute(
            sums.shape, lambda n, y, x, c: (sums[n, y, x, c] + bias) * weight[y, x, c], f"{context.name}.weighted"
        )
        bias = 0
    factors = rescale_parameters(quant.scale / (divisor * made.scale), bias, channels)
    found = requantise(
        total, parameters=context.constant("factors", factors), zero_point=made.int8_zero_point, relu=layer.relu,
        name=context.name,
    )  # fmt: skip
    return context.image(found, source.positions)


def _mean(layer: Mean, data: tuple[Value, ...], context: Context) -> Value:
    """Sums along dimensions that are not in lanes, or a matmul with ones along the last dimensions."""
    rank, axes = len(data[0].shape), layer.axes
    over_pixels = data[0].is_image and 1 not in axes
    if axes and axes == tuple(range(axes[0], rank)) and not over_pixels:
        return _mean_of_rows(layer, context.as_plain(data[0]), context)
    as_image = over_pixels or (1 not in axes and rank in IMAGE_RANKS and rank - 1 in axes)
    source = context.as_image(data[0]) if as_image else context.as_plain(data[0])
    shape = tuple(size for axis, size in enumerate(source.shape) if axis not in axes)
    along = {axis: reduce_axis(source.shape[axis], f"r{axis}") for axis in axes}

    def total(*i: Expr) -> Expr:
        remaining = iter(i)
        indices = tuple(along[axis] + 0 if axis in along else next(remaining) for axis in range(rank))
        value = source.at(indices).astype("int32")
        return sum(value, axis=tuple(along.values())) if along else value

    sums = compute(shape, total, f"{context.name}.sums")
    found = _averaged(layer, sums, prod(source.shape[axis] for axis in axes), context)
    return _in_shape(found, context)


def _mean_of_rows(layer: Mean, source: Value, context: Context) -> Value:
    """The mean of each row, by a matmul with ones."""
    depth = prod(source.shape[layer.axes[0] :])
    rows = reshaped(source.tensor, (prod(source.shape) // depth, depth), name=f"{context.name}.rows")
    sums = dense(rows, context.constant("ones", np.ones((1, depth), np.int8)), name=f"{context.name}.sums")
    return _in_shape(_averaged(layer, sums, depth, context), context)


def _averaged(layer: Mean, sums: Tensor, count: int, context: Context) -> Tensor:
    (quant,), made = layer.input_quants, layer.output_quant
    factors = rescale_parameters(quant.scale / (count * made.scale), -quant.int8_zero_point * count, sums.shape[-1])
    return requantise(
        sums, parameters=context.constant("factors", factors), zero_point=made.int8_zero_point, relu=layer.relu,
        name=f"{context.name}.averages",
    )  # fmt: skip


def _in_shape(found: Tensor, context: Context) -> Value:
    """Averages in the result's shape."""
    if not context.read_as_image:
        return context.plain(reshaped(found, context.shape, name=context.name))
    plain = context.plain(reshaped(found, context.shape, name=f"{context.name}.shaped"))
    return computed(context.shape, lambda *i: plain.at(i), context.name, context.lanes, is_image=True)


POOLS: Mapping[type[Layer], Callable[..., Value]] = {AveragePool: _average, MaxPool: _max_pool, Mean: _mean}
