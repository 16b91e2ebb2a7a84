"""Layers as tensor programs: images as (N, H, W, C), values of uint8 less 128, weights and factors as constants."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from lathe.frontend.onnx.reading import TensorType
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

Array = NDArray[Any]
Parameters = Callable[[str, Array], Tensor]


@dataclass(frozen=True)
class Port:
    """A tensor of a model as a program has it: under another name, images with channels last, less 128 if uint8."""

    tensor: str
    name: str
    dtype: str
    shape: tuple[int, ...]

    def to_machine(self, values: Array) -> Array:
        """The array that the program takes."""
        signed = (values ^ np.uint8(128)).view(np.int8) if self.dtype == "uint8" else values
        return np.ascontiguousarray(signed.transpose(0, 2, 3, 1) if signed.ndim == 4 else signed)

    def from_machine(self, values: Array) -> Array:
        """The model's tensor of what the program made."""
        ordered = np.ascontiguousarray(values.transpose(0, 3, 1, 2) if values.ndim == 4 else values)
        return ordered.view(np.uint8) ^ np.uint8(128) if self.dtype == "uint8" else ordered


@dataclass(eq=False)
class Lowered:
    """Layers as one tensor program."""

    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    placeholders: list[Tensor] = field(default_factory=list)
    made: dict[str, Tensor] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """Of each stage that ends a layer, the layer's name in the model."""

    @property
    def results(self) -> list[Tensor]:
        """The tensors that the program makes for others."""
        return [self.made[port.tensor] for port in self.outputs]

    @property
    def tensors(self) -> list[Tensor]:
        """All inputs and outputs of the program."""
        return [*self.placeholders, *self.results]


def lowered(
    layers: tuple[Layer, ...], inputs: tuple[str, ...], outputs: tuple[str, ...], types: Mapping[str, TensorType]
) -> Lowered:
    """The program of some layers. Raises TensorError for layers that the language has no words for."""
    found = Lowered()
    names = _Names()

    def port(tensor: str) -> Port:
        known = types[tensor]
        return Port(tensor, names.fresh(tensor), known.dtype, known.shape)

    for tensor in inputs:
        made = port(tensor)
        found.made[tensor] = placeholder(own_shape(made.shape), "int8", name=made.name)
        found.placeholders.append(found.made[tensor])
        found.inputs.append(made)
    for layer in layers:
        name = names.fresh(layer.name)

        def constant(suffix: str, values: Array, name: str = name) -> Tensor:
            held = placeholder(values.shape, str(values.dtype), name=f"{name}.{suffix}")
            found.constants[held.name] = values
            found.placeholders.append(held)
            return held

        data = tuple(found.made[tensor] for tensor in layer.inputs)
        found.made[layer.output] = _LOWERINGS[type(layer)](layer, data, types[layer.output], name, constant)
        found.names[name] = layer.name
    for tensor in outputs:
        known = types[tensor]
        found.outputs.append(Port(tensor, found.made[tensor].name, known.dtype, known.shape))
    return found


class _Names:
    """Names of a model as such that the language takes, each once."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def fresh(self, name: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "tensor"
        plain = plain if plain[0].isalpha() else f"n{plain}"
        found, number = plain, 1
        while found in self.taken:
            number += 1
            found = f"{plain}_{number}"
        self.taken.add(found)
        return found


def _wrapped(values: Array) -> Array:
    """Sums of 32 bits, which wrap around as accumulators do."""
    wrapped: Array = ((values.astype(np.int64) + 2**31) % 2**32 - 2**31).astype(np.int32)
    return wrapped


def _rescaled(
    layer: Conv | ConvTranspose | Product, sums: Tensor, per_filter: Array, name: str, constant: Parameters
) -> Tensor:
    """Sums of products as values of the output; ``per_filter`` are the sums of each filter's weights."""
    (how,), made = layer.of_inputs, layer.of_output
    bias = _wrapped(layer.bias - how.own_zero * per_filter)
    factors = rescale_parameters(how.scale * layer.weight_scale / made.scale, bias)
    parameters = constant("factors", factors)
    return requantise(sums, parameters=parameters, zero_point=made.own_zero, relu=layer.relu, name=name)


def _conv(layer: Conv, data: tuple[Tensor, ...], _: TensorType, name: str, constant: Parameters) -> Tensor:
    top, left, bottom, right = layer.pads
    around = ((top, bottom), (left, right))
    zero = layer.of_inputs[0].own_zero
    filters, depth = layer.weights.shape[:2]
    per_filter = layer.weights.astype(np.int64).sum(axis=(1, 2, 3))
    if layer.groups == data[0].shape[3] == filters and depth == 1 and layer.groups > 1:
        weights = constant("weights", np.ascontiguousarray(layer.weights[:, 0].transpose(1, 2, 0)))
        sums = depthwise_conv2d(
            data[0], weights, stride=layer.strides, padding=around, pad_value=zero, dilation=layer.dilations,
            name=f"{name}.sums",
        )  # fmt: skip
    else:
        weights = constant("weights", np.ascontiguousarray(layer.weights.transpose(0, 2, 3, 1)))
        sums = conv2d(
            data[0], weights, stride=layer.strides, padding=around, pad_value=zero, dilation=layer.dilations,
            groups=layer.groups, name=f"{name}.sums",
        )  # fmt: skip
    return _rescaled(layer, sums, per_filter, name, constant)


def _product(layer: Product, data: tuple[Tensor, ...], made: TensorType, name: str, constant: Parameters) -> Tensor:
    (rows,) = data
    weights = constant("weights", layer.weights)
    flat = rows if rows.ndim == 2 else reshaped(rows, (prod(rows.shape[:-1]), rows.shape[-1]), name=f"{name}.rows")
    per_filter = layer.weights.astype(np.int64).sum(axis=1)
    found = _rescaled(layer, dense(flat, weights, name=f"{name}.sums"), per_filter, name, constant)
    return found if rows.ndim == 2 else reshaped(found, made.shape, name=f"{name}.shaped")


def _sum(layer: Sum, data: tuple[Tensor, ...], _: TensorType, name: str, constant: Parameters) -> Tensor:
    a, b = layer.of_inputs
    made = layer.of_output
    factors = rescaled_add_parameters(
        (a.scale / made.scale, b.scale / made.scale), (-a.own_zero, -b.own_zero), data[0].shape[-1]
    )
    parameters = constant("factors", factors)
    return rescaled_add(*data, parameters=parameters, zero_point=made.own_zero, relu=layer.relu, name=name)


def _max_pool(layer: MaxPool, data: tuple[Tensor, ...], _: TensorType, name: str, constant: Parameters) -> Tensor:  # noqa: ARG001
    top, left, bottom, right = layer.pads
    return max_pool2d(data[0], layer.kernel, stride=layer.strides, padding=((top, bottom), (left, right)), name=name)


def _average(layer: AveragePool, data: tuple[Tensor, ...], _: TensorType, name: str, constant: Parameters) -> Tensor:
    (image,), (how,), made = data, layer.of_inputs, layer.of_output
    if any(layer.pads):
        top, left, bottom, right = layer.pads
        image = pad2d(image, ((top, bottom), (left, right)), value=how.own_zero, name=f"{name}.border")
    n, height, width, channels = image.shape
    (high, wide), (down, along) = layer.kernel, layer.strides
    ry, rx = reduce_axis(high, "ry"), reduce_axis(wide, "rx")
    total = compute(
        (n, (height - high) // down + 1, (width - wide) // along + 1, channels),
        lambda n, y, x, c: sum(image[n, y * down + ry, x * along + rx, c].astype("int32"), axis=(ry, rx)),
        f"{name}.sums",
    )
    cells = high * wide
    factors = rescale_parameters(how.scale / (cells * made.scale), -how.own_zero * cells, channels)
    return requantise(
        total, parameters=constant("factors", factors), zero_point=made.own_zero, relu=layer.relu, name=name
    )


def _times(layer: Times, data: tuple[Tensor, ...], _: TensorType, name: str, constant: Parameters) -> Tensor:
    (a, b), (of_a, of_b), made = data, layer.of_inputs, layer.of_output

    def product(*i: Expr) -> Expr:
        other = b[tuple(0 if extent == 1 else each for extent, each in zip(b.shape, i, strict=True))]
        return (a[i].astype("int32") - of_a.own_zero) * (other.astype("int32") - of_b.own_zero)

    products = compute(a.shape, product, f"{name}.products")
    factors = rescale_parameters(of_a.scale * of_b.scale / made.scale, 0, a.shape[-1])
    return requantise(
        products, parameters=constant("factors", factors), zero_point=made.own_zero, relu=layer.relu, name=name
    )


def _lookup(layer: Lookup, data: tuple[Tensor, ...], _: TensorType, name: str, constant: Parameters) -> Tensor:
    """Tables by the bits of the machine's own values: row 255 is that of -1. One that only clips does so."""
    (source,) = data
    table = own_table(layer)
    if table.ndim == 1:
        in_order = np.concatenate((table[128:], table[:128])).astype(np.int64)
        low, high = int(in_order[0]), int(in_order[-1])
        if np.array_equal(in_order, np.clip(np.arange(-128, 128), low, high)):
            return clip(source, low, high, name=name)
    return lookup(source, constant("table", table), name=name)


def own_table(layer: Lookup) -> Array:
    """The table of a function as the machine has it: int8, by the values less 128 of uint8, -1 in row 255."""
    made = layer.table.astype(np.int64) - (128 if layer.of_output.dtype == "uint8" else 0)
    of_values: Array = made.astype(np.int8)  # of -128 to 127
    return np.concatenate((of_values[128:], of_values[:128]))


def _conv_transpose(
    layer: ConvTranspose, data: tuple[Tensor, ...], made: TensorType, name: str, constant: Parameters
) -> Tensor:
    """A convolution with the weights turned round, of the data with zeros between their pixels."""
    (image,), (how,) = data, layer.of_inputs
    n, height, width, channels = image.shape
    (down, along), (high, wide) = layer.strides, layer.weights.shape[2:]
    top, left = (taps - 1 - first for taps, first in zip((high, wide), layer.pads[:2], strict=True))
    rows, columns = made.shape[2] + high - 1, made.shape[3] + wide - 1

    def spread_value(n: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
        at_y, at_x = y - top, x - left
        inside = (at_y >= 0) & (at_y < (height - 1) * down + 1) & (at_x >= 0) & (at_x < (width - 1) * along + 1)
        if down > 1:
            inside = inside & (at_y % down == 0)
        if along > 1:
            inside = inside & (at_x % along == 0)
        return select(inside, image[n, at_y // down, at_x // along, c], how.own_zero)

    spread = compute((n, rows, columns, channels), spread_value, f"{name}.spread")
    turned = np.ascontiguousarray(layer.weights[:, :, ::-1, ::-1].transpose(1, 2, 3, 0))
    sums = conv2d(spread, constant("weights", turned), name=f"{name}.sums")
    return _rescaled(layer, sums, turned.astype(np.int64).sum(axis=(1, 2, 3)), name, constant)


def _tensor_product(
    layer: TensorProduct, data: tuple[Tensor, ...], made: TensorType, name: str, constant: Parameters
) -> Tensor:
    a, b = data
    of_a, of_b = layer.of_inputs
    k = reduce_axis(of_onnx(a)[-1], "k")

    def element(*i: Expr) -> Expr:
        inner: Expr = AxisRef(k)
        left, right = at(a, (*i[:-1], inner)), at(b, (*i[:-2], inner, i[-1]))
        return sum(left.astype("int32") * right.astype("int32"), axis=k)

    sums = computed(made.shape, element, f"{name}.sums")
    factors = rescale_parameters(of_a.scale * of_b.scale / layer.of_output.scale, 0, sums.shape[-1])
    return requantise(
        sums, parameters=constant("factors", factors), zero_point=layer.of_output.own_zero, relu=layer.relu, name=name
    )


def _transpose(layer: Transpose, data: tuple[Tensor, ...], made: TensorType, name: str, _: Parameters) -> Tensor:
    places = [layer.order.index(n) for n in range(len(layer.order))]
    return computed(made.shape, lambda *i: at(data[0], tuple(i[place] for place in places)), name)


def _slice(layer: Slice, data: tuple[Tensor, ...], made: TensorType, name: str, _: Parameters) -> Tensor:
    def element(*i: Expr) -> Expr:
        return at(
            data[0],
            tuple(
                each * step + start if (start, step) != (0, 1) else each
                for each, start, step in zip(i, layer.starts, layer.steps, strict=True)
            ),
        )

    return computed(made.shape, element, name)


def _pad(layer: Pad, data: tuple[Tensor, ...], made: TensorType, name: str, _: Parameters) -> Tensor:
    (source,), sizes = data, of_onnx(data[0])

    def element(*i: Expr) -> Expr:
        inside: Expr | None = None
        for each, first, size, whole in zip(i, layer.before, sizes, made.shape, strict=True):
            for there in ([each >= first] if first else []) + ([each < first + size] if first + size < whole else []):
                inside = there if inside is None else inside & there
        moved = at(source, tuple(each - first if first else each for each, first in zip(i, layer.before, strict=True)))
        return moved if inside is None else select(inside, moved, layer.of_output.own_zero)

    return computed(made.shape, element, name)


def _resize(layer: Resize, data: tuple[Tensor, ...], made: TensorType, name: str, _: Parameters) -> Tensor:
    def element(*i: Expr) -> Expr:
        return at(
            data[0],
            tuple(each // factor if factor > 1 else each for each, factor in zip(i, layer.factors, strict=True)),
        )

    return computed(made.shape, element, name)


def _concat(layer: Concat, data: tuple[Tensor, ...], made: TensorType, name: str, _: Parameters) -> Tensor:
    def element(*i: Expr) -> Expr:
        end = made.shape[layer.axis]
        value: Expr | None = None
        for source in reversed(data):
            start = end - of_onnx(source)[layer.axis]
            place = i[layer.axis] - start if start else i[layer.axis]
            read = at(source, (*i[: layer.axis], place, *i[layer.axis + 1 :]))
            value = read if value is None else select(i[layer.axis] < end, read, value)
            end = start
        assert value is not None, f"{name} is made of nothing"
        return value

    return computed(made.shape, element, name)


OWN_ORDER = (0, 2, 3, 1)
"""Dimensions of images as programs have them, in ONNX's numbers."""


def of_onnx(tensor: Tensor) -> tuple[int, ...]:
    """The shape that ONNX gives a tensor."""
    shape = tensor.shape
    return (shape[0], shape[3], shape[1], shape[2]) if len(shape) == 4 else shape


def own_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that programs give a tensor."""
    return tuple(shape[n] for n in OWN_ORDER) if len(shape) == 4 else shape


def at(tensor: Tensor, indices: tuple[Expr, ...]) -> Expr:
    """The element at ONNX's indices."""
    return tensor[tuple(indices[n] for n in OWN_ORDER) if len(indices) == 4 else indices]


def computed(shape: tuple[int, ...], element: Callable[..., Expr], name: str) -> Tensor:
    """The tensor of a shape of ONNX's whose elements at ONNX's indices are these."""
    if len(shape) != 4:
        return compute(shape, element, name)
    return compute(own_shape(shape), lambda n, y, x, c: element(n, c, y, x), name)


def _reshape(layer: Reshape, data: tuple[Tensor, ...], made: TensorType, name: str, _: Parameters) -> Tensor:  # noqa: ARG001
    (source,) = data
    ordered = source if _is_in_order(source.shape) else computed_in_order(source, f"{name}.in_order")
    shape = own_shape(made.shape)
    if _is_in_order(shape):
        return reshaped(ordered, shape, name=name)
    flat = reshaped(ordered, made.shape, name=f"{name}.shaped")
    return compute(shape, lambda n, y, x, c: flat[n, c, y, x], name)


def computed_in_order(source: Tensor, name: str) -> Tensor:
    """An image with its dimensions in ONNX's order."""
    return compute(of_onnx(source), lambda n, c, y, x: source[n, y, x, c], name)


def _is_in_order(shape: tuple[int, ...]) -> bool:
    """Whether the values of a tensor of a program lie as ONNX's do: no image, or one of one pixel or channel."""
    return len(shape) != 4 or shape[1:3] == (1, 1) or shape[3] == 1


_LOWERINGS: Mapping[type[Layer], Callable[..., Tensor]] = {
    Conv: _conv,
    Product: _product,
    Sum: _sum,
    MaxPool: _max_pool,
    AveragePool: _average,
    Concat: _concat,
    ConvTranspose: _conv_transpose,
    Pad: _pad,
    Resize: _resize,
    Slice: _slice,
    TensorProduct: _tensor_product,
    Transpose: _transpose,
    Lookup: _lookup,
    Times: _times,
    Reshape: _reshape,
}
