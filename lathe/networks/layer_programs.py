"""Each kind of layer as a tensor program: zero points folded into biases, weights and factors as constants."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from lathe.frontend import (
    Tensor,
    compute,
    placeholder,
    reduce_axis,
    rescale_parameters,
    rescaled_add_parameters,
    select,
    sum,
)
from lathe.frontend.nodes import AxisRef
from lathe.frontend.onnx.layers import (
    AveragePool,
    Concat,
    Conv,
    ConvTranspose,
    Layer,
    Lookup,
    MaxPool,
    Pad,
    Product,
    Reshape,
    Resize,
    Slice,
    Sum,
    TensorProduct,
    Times,
    Transpose,
)
from lathe.frontend.operand import Expr
from lathe.frontend.operators import (
    clip,
    conv2d,
    dense,
    depthwise_conv2d,
    lookup,
    max_pool2d,
    pad2d,
    requantise,
    rescaled_add,
)
from lathe.frontend.operators import reshape as reshaped
from lathe.networks.borders import Run, rescaled_by_place, runs_of_taps, sums_of_weights
from lathe.networks.values import Array, Shape, Value, computed, filled


@dataclass(frozen=True, eq=False)
class Context:
    """What a layer is lowered with: its ``name``, the model's ``shape`` of its result, lanes; constants are added."""

    name: str
    shape: Shape
    lanes: int
    constants: dict[str, Array]
    placeholders: list[Tensor]

    def constant(self, suffix: str, values: Array) -> Tensor:
        """A constant of the program."""
        held = placeholder(values.shape, str(values.dtype), name=f"{self.name}.{suffix}")
        self.constants[held.name] = np.ascontiguousarray(values)
        self.placeholders.append(held)
        return held

    def image(self, tensor: Tensor, places: Shape | None = None) -> Value:
        """The result."""
        return Value(tensor, self.shape, places)


def program_of_layer(layer: Layer, data: tuple[Value, ...], context: Context) -> Value:
    """The result of a layer. Raises TensorError for one that the language has no words for."""
    return _PROGRAMS[type(layer)](layer, data, context)


def _wrapped(values: Array) -> Array:
    """Sums of 32 bits, which wrap around as accumulators do."""
    wrapped: Array = ((values.astype(np.int64) + 2**31) % 2**32 - 2**31).astype(np.int32)
    return wrapped


def _padded(values: Array, axis: int, count: int) -> Array:
    """Zeros behind the last along an axis."""
    widths = [(0, count - values.shape[n] if n == axis % values.ndim else 0) for n in range(values.ndim)]
    return np.pad(values, widths)


def _rescaled(
    layer: Conv | ConvTranspose | Product,
    sums: Tensor,
    per_filter: Array,
    context: Context,
    name: str = "",
    like: Value | None = None,
    runs: tuple[Sequence[Run], Sequence[Run]] = ((), ()),
) -> Tensor:
    """Sums of products as values of the output; ``per_filter`` are the sums of each filter's weights.

    Filters lie as the channels of ``like`` do, or else one behind the other. Where pixels differ in the weights that
    meet data, there are ``runs`` of rows and columns, and sums (rows, columns, filters).
    """
    (how,), made = layer.of_inputs, layer.of_output
    bias = _wrapped(layer.bias - how.own_zero * per_filter)
    if bias.ndim > 1 and np.all(bias == bias[0, 0]):
        bias = bias[0, 0]
    shape = (*bias.shape, 2)
    scale = np.broadcast_to(how.scale * layer.weight_scale / made.scale, bias.shape)
    factors = rescale_parameters(scale.reshape(-1), bias.reshape(-1)).reshape(shape)
    placed = _padded(factors, -2, sums.shape[-1]) if like is None else like.spread(factors, len(shape) - 2)
    held = context.constant("factors", placed)
    if bias.ndim > 1:
        return rescaled_by_place(sums, held, *runs, made.own_zero, layer.relu, name or context.name)
    return requantise(sums, parameters=held, zero_point=made.own_zero, relu=layer.relu, name=name or context.name)


def _conv(layer: Conv, data: tuple[Value, ...], context: Context) -> Value:
    (image,) = data
    top, left, bottom, right = layer.pads
    options: dict[str, Any] = {
        "stride": layer.strides,
        "padding": ((top, bottom), (left, right)),  # of zeros: what they stand for is in the biases
        "dilation": layer.dilations,
        "name": f"{context.name}.sums",
    }
    filters, depth = layer.weights.shape[:2]
    rows, columns = (
        runs_of_taps(size, made, taps, stride, dilation, before)
        for size, made, taps, stride, dilation, before in zip(
            image.shape[2:], context.shape[2:], layer.weights.shape[2:], layer.strides, layer.dilations, (top, left),
            strict=True,
        )
    )  # fmt: skip
    per_filter = sums_of_weights(layer.weights, rows, columns)
    if layer.groups == image.shape[1] == filters and depth == 1 and layer.groups > 1:
        weights = context.constant("weights", image.spread(layer.weights[:, 0].transpose(1, 2, 0), 2))
        sums = depthwise_conv2d(image.tensor, weights, **options)
        found = _rescaled(layer, sums, per_filter, context, like=image, runs=(rows, columns))
        return context.image(found, image.places)
    if layer.groups > 1:
        weights = context.constant("weights", layer.weights.transpose(0, 2, 3, 1))
        sums = conv2d(image.dense(f"{context.name}.data").tensor, weights, groups=layer.groups, **options)
        found = _rescaled(layer, sums, per_filter, context, f"{context.name}.dense", runs=(rows, columns))
        whole = Value(found, context.shape)
        return computed(context.shape, lambda *i: whole.at(i), context.name, context.lanes)
    wide = image.spread(layer.weights.transpose(0, 2, 3, 1), 3)
    weights = context.constant("weights", _padded(wide, 0, filled(filters, context.lanes)))
    sums = conv2d(image.tensor, weights, **options)
    return context.image(_rescaled(layer, sums, per_filter, context, runs=(rows, columns)))


def _conv_transpose(layer: ConvTranspose, data: tuple[Value, ...], context: Context) -> Value:
    """A convolution with the weights turned round, of the data with zeros between their pixels."""
    (value,), (how,) = data, layer.of_inputs
    image = value.tensor
    n, height, width, channels = image.shape
    (down, along), (high, wide) = layer.strides, layer.weights.shape[2:]
    top, left = (taps - 1 - first for taps, first in zip((high, wide), layer.pads[:2], strict=True))
    rows, columns = context.shape[2] + high - 1, context.shape[3] + wide - 1

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
    placed = _padded(value.spread(turned, 3), 0, filled(turned.shape[0], context.lanes))
    sums = conv2d(spread, context.constant("weights", placed), name=f"{context.name}.sums")
    return context.image(_rescaled(layer, sums, per_filter, context))


def _product(layer: Product, data: tuple[Value, ...], context: Context) -> Value:
    rows = data[0].dense(f"{context.name}.data").tensor
    weights = context.constant("weights", layer.weights)
    flat = (
        rows if rows.ndim == 2 else reshaped(rows, (prod(rows.shape[:-1]), rows.shape[-1]), name=f"{context.name}.rows")
    )
    per_filter = layer.weights.astype(np.int64).sum(axis=1)
    sums = dense(flat, weights, name=f"{context.name}.sums")
    if rows.ndim == 2:
        return context.image(_rescaled(layer, sums, per_filter, context))
    found = _rescaled(layer, sums, per_filter, context, f"{context.name}.flat")
    return context.image(reshaped(found, context.shape, name=context.name))


def _tensor_product(layer: TensorProduct, data: tuple[Value, ...], context: Context) -> Value:
    a, b = data
    of_a, of_b = layer.of_inputs
    k = reduce_axis(a.shape[-1], "k")
    inner: Expr = AxisRef(k)

    def element(*i: Expr) -> Expr:
        left, right = a.at((*i[:-1], inner)), b.at((*i[:-2], inner, i[-1]))
        return sum(left.astype("int32") * right.astype("int32"), axis=k)

    sums = computed(context.shape, element, f"{context.name}.sums", 1)
    factors = rescale_parameters(of_a.scale * of_b.scale / layer.of_output.scale, 0, sums.tensor.shape[-1])
    found = requantise(
        sums.tensor, parameters=context.constant("factors", factors), zero_point=layer.of_output.own_zero,
        relu=layer.relu, name=f"{context.name}.dense" if sums.is_image else context.name,
    )  # fmt: skip
    if not sums.is_image:
        return context.image(found)
    whole = Value(found, context.shape)
    return computed(context.shape, lambda *i: whole.at(i), context.name, context.lanes)


def _alike(data: tuple[Value, ...], context: Context) -> tuple[Value, ...]:
    """Operands whose channels have the same places."""
    if len({(each.places, each.tensor.shape[-1]) for each in data}) == 1:
        return data
    return tuple(
        each
        if each.places is None
        else computed(each.shape, _elements_of(each), f"{context.name}.data{n}", context.lanes)
        for n, each in enumerate(data)
    )


def _elements_of(value: Value) -> Callable[..., Expr]:
    """The elements of a tensor, by the model's indices."""
    return lambda *i: value.at(i)


def _sum(layer: Sum, data: tuple[Value, ...], context: Context) -> Value:
    (a, b), made = layer.of_inputs, layer.of_output
    left, right = _alike(data, context)
    factors = rescaled_add_parameters(
        (a.scale / made.scale, b.scale / made.scale), (-a.own_zero, -b.own_zero), left.width
    )
    found = rescaled_add(
        left.tensor, right.tensor, parameters=context.constant("factors", factors), zero_point=made.own_zero,
        relu=layer.relu, name=context.name,
    )  # fmt: skip
    return context.image(found, left.places)


def _times(layer: Times, data: tuple[Value, ...], context: Context) -> Value:
    (of_a, of_b), made = layer.of_inputs, layer.of_output
    left, right = _alike(data, context)
    a, b = left.tensor, right.tensor

    def product(*i: Expr) -> Expr:
        other = b[tuple(0 if extent == 1 else each for extent, each in zip(b.shape, i, strict=True))]
        return (a[i].astype("int32") - of_a.own_zero) * (other.astype("int32") - of_b.own_zero)

    products = compute(a.shape, product, f"{context.name}.products")
    factors = rescale_parameters(of_a.scale * of_b.scale / made.scale, 0, left.width)
    found = requantise(
        products, parameters=context.constant("factors", factors), zero_point=made.own_zero, relu=layer.relu,
        name=context.name,
    )  # fmt: skip
    return context.image(found, left.places)


def _max_pool(layer: MaxPool, data: tuple[Value, ...], context: Context) -> Value:
    top, left, bottom, right = layer.pads
    found = max_pool2d(
        data[0].tensor, layer.kernel, stride=layer.strides, padding=((top, bottom), (left, right)), name=context.name
    )
    return context.image(found, data[0].places)


def _average(layer: AveragePool, data: tuple[Value, ...], context: Context) -> Value:
    (how,), made = layer.of_inputs, layer.of_output
    image = data[0].tensor
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
    return context.image(found, data[0].places)


def _lookup(layer: Lookup, data: tuple[Value, ...], context: Context) -> Value:
    """Tables by the bits of the machine's own values: row 255 is that of -1. One that only clips does so."""
    (source,) = data
    table = own_table(layer)
    if table.ndim > 1:
        table = source.spread(table, 1)
    in_order = np.concatenate((table[128:], table[:128])).astype(np.int64)
    if table.ndim == 1 and np.array_equal(in_order, np.clip(np.arange(-128, 128), in_order[0], in_order[-1])):
        found = clip(source.tensor, int(in_order[0]), int(in_order[-1]), name=context.name)
    else:
        found = lookup(source.tensor, context.constant("table", table), name=context.name)
    return context.image(found, source.places)


def own_table(layer: Lookup) -> Array:
    """The table of a function as the machine has it: int8, by the values less 128 of uint8, -1 in row 255."""
    made = layer.table.astype(np.int64) - (128 if layer.of_output.dtype == "uint8" else 0)
    of_values: Array = made.astype(np.int8)  # of -128 to 127
    return np.concatenate((of_values[128:], of_values[:128]))


def _transpose(layer: Transpose, data: tuple[Value, ...], context: Context) -> Value:
    places = [layer.order.index(n) for n in range(len(layer.order))]
    keeps = places[1:2] == [1]
    return _moved(data[0], context, lambda *i: tuple(i[place] for place in places), keeps_channels=keeps)


def _slice(layer: Slice, data: tuple[Value, ...], context: Context) -> Value:
    return _moved(
        data[0],
        context,
        lambda *i: tuple(
            each * step + start if (start, step) != (0, 1) else each
            for each, start, step in zip(i, layer.starts, layer.steps, strict=True)
        ),
        keeps_channels=data[0].shape[1:2] == context.shape[1:2] and layer.starts[1:2] == (0,),
    )


def _resize(layer: Resize, data: tuple[Value, ...], context: Context) -> Value:
    return _moved(
        data[0],
        context,
        lambda *i: tuple(each // factor if factor > 1 else each for each, factor in zip(i, layer.factors, strict=True)),
        keeps_channels=layer.factors[1:2] == (1,),
    )


def _moved(source: Value, context: Context, place: Callable[..., tuple[Expr, ...]], *, keeps_channels: bool) -> Value:
    """The values of a tensor at other indices. Channels that stay where they are keep their places."""
    if source.is_image and len(context.shape) == 4 and keeps_channels:
        n, _, height, width = context.shape

        def own(n: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
            at_n, at_c, at_y, at_x = place(n, c, y, x)
            return source.tensor[at_n, at_y, at_x, at_c]

        return context.image(compute((n, height, width, source.width), own, context.name), source.places)
    return computed(context.shape, lambda *i: source.at(place(*i)), context.name, context.lanes)


def _pad(layer: Pad, data: tuple[Value, ...], context: Context) -> Value:
    (source,) = data

    def element(*i: Expr) -> Expr:
        inside: Expr | None = None
        for each, first, size, whole in zip(i, layer.before, source.shape, context.shape, strict=True):
            for there in ([each >= first] if first else []) + ([each < first + size] if first + size < whole else []):
                inside = there if inside is None else inside & there
        moved = source.at(tuple(each - first if first else each for each, first in zip(i, layer.before, strict=True)))
        return moved if inside is None else select(inside, moved, layer.of_output.own_zero)

    return computed(context.shape, element, context.name, context.lanes)


def _concat(layer: Concat, data: tuple[Value, ...], context: Context) -> Value:
    """Tensors behind each other; channels of nobody stay between, so that each begins with an element of its own."""
    channels = layer.axis == 1 and len(context.shape) == 4
    starts, places, end = [], list[int](), 0
    for value in data:
        starts.append(end)
        if channels:
            places += [end + place for place in (value.places or range(value.shape[1]))]
        end += value.width if channels else value.shape[layer.axis]

    def element(*i: Expr) -> Expr:
        along = i[-1] if channels else i[layer.axis]
        found: Expr | None = None
        for value, start, stop in reversed(list(zip(data, starts, [*starts[1:], end], strict=True))):
            place = along - start if start else along
            if channels:
                read: Expr = value.tensor[(*i[:-1], place)]
            else:
                read = value.at((*i[: layer.axis], place, *i[layer.axis + 1 :]))
            found = read if found is None else select(along < stop, read, found)
        assert found is not None, f"{context.name} is made of nothing"
        return found

    if not channels:
        return computed(context.shape, element, context.name, context.lanes)
    n, _, height, width = context.shape
    made = compute((n, height, width, end), element, context.name)
    return context.image(made, None if places == list(range(context.shape[1])) else tuple(places))


def _reshape(layer: Reshape, data: tuple[Value, ...], context: Context) -> Value:  # noqa: ARG001 - one signature
    source = data[0].dense(f"{context.name}.data")
    flat = source.tensor
    if not _is_in_order(source):
        n, channels, height, width = source.shape
        flat = compute(source.shape, lambda n, c, y, x: source.tensor[n, y, x, c], f"{context.name}.in_order")
    if len(context.shape) != 4:
        return context.image(reshaped(flat, context.shape, name=context.name))
    shaped = reshaped(flat, context.shape, name=f"{context.name}.shaped")
    return computed(context.shape, lambda *i: shaped[i], context.name, context.lanes)


def _is_in_order(value: Value) -> bool:
    """Whether the values of a tensor of a program lie as ONNX's do: no image, or one of one pixel or channel."""
    return not value.is_image or value.shape[2:] == (1, 1) or value.shape[1] == 1


_PROGRAMS: Mapping[type[Layer], Callable[..., Value]] = {
    AveragePool: _average,
    Concat: _concat,
    Conv: _conv,
    ConvTranspose: _conv_transpose,
    Lookup: _lookup,
    MaxPool: _max_pool,
    Pad: _pad,
    Product: _product,
    Reshape: _reshape,
    Resize: _resize,
    Slice: _slice,
    Sum: _sum,
    TensorProduct: _tensor_product,
    Times: _times,
    Transpose: _transpose,
}
