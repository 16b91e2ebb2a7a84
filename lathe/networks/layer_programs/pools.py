"""Windows of images: the greatest value of each, and the average."""

from collections.abc import Callable, Mapping

from lathe.frontend import compute, reduce_axis, rescale_parameters, sum
from lathe.frontend.onnx.layers import AveragePool, Layer, MaxPool
from lathe.frontend.operators import max_pool2d, pad2d, requantise
from lathe.networks.layer_programs.context import Context
from lathe.networks.values import Value


def _max_pool(layer: MaxPool, data: tuple[Value, ...], context: Context) -> Value:
    image = context.as_image(data[0])
    top, left, bottom, right = layer.pads
    found = max_pool2d(
        image.tensor, layer.kernel, stride=layer.strides, padding=((top, bottom), (left, right)), name=context.name
    )
    return context.image(found, image.places)


def _average(layer: AveragePool, data: tuple[Value, ...], context: Context) -> Value:
    (how,), made = layer.of_inputs, layer.of_output
    source = context.as_image(data[0])
    image = source.tensor
    if any(layer.pads):
        top, left, bottom, right = layer.pads
        around = ((top, bottom), (left, right))
        image = pad2d(image, around, value=how.own_zero, name=f"{context.name}.border")
    n, height, width, channels = image.shape
    (high, wide), (down, along) = layer.kernel, layer.strides
    ry, rx = reduce_axis(high, "ry"), reduce_axis(wide, "rx")
    total = compute(
        (n, (height - high) // down + 1, (width - wide) // along + 1, channels),
        lambda n, y, x, c: sum(image[n, y * down + ry, x * along + rx, c].astype("int32"), axis=(ry, rx)),
        f"{context.name}.sums",
    )
    cells = high * wide
    factors = rescale_parameters(how.scale / (cells * made.scale), -how.own_zero * cells, channels)
    found = requantise(
        total, parameters=context.constant("factors", factors), zero_point=made.own_zero, relu=layer.relu,
        name=context.name,
    )  # fmt: skip
    return context.image(found, source.places)


POOLS: Mapping[type[Layer], Callable[..., Value]] = {AveragePool: _average, MaxPool: _max_pool}
