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
    sum,
)
from lathe.frontend.onnx.layers import AveragePool, Conv, Layer, Lookup, MaxPool, Product, Reshape, Sum, Times
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
        shape = (*made.shape[:1], *made.shape[2:], made.shape[1]) if len(made.shape) == 4 else made.shape
        found.made[tensor] = placeholder(shape, "int8", name=made.name)
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


def _rescaled(layer: Conv | Product, sums: Tensor, per_filter: Array, name: str, constant: Parameters) -> Tensor:
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
    values = np.arange(-128, 128)
    in_order = np.concatenate((table[128:], table[:128])).astype(np.int64)
    low, high = int(in_order[0]), int(in_order[-1])
    if np.array_equal(in_order, np.clip(values, low, high)):
        return clip(source, low, high, name=name)
    return lookup(source, constant("table", table), name=name)


def own_table(layer: Lookup) -> Array:
    """The table of a function as the machine has it: (256,) int8, by the values less 128 of uint8, -1 in row 255."""
    made = layer.table.astype(np.int64) - (128 if layer.of_output.dtype == "uint8" else 0)
    of_values: Array = made.astype(np.int8)  # of -128 to 127
    return np.concatenate((of_values[128:], of_values[:128]))


def _reshape(layer: Reshape, data: tuple[Tensor, ...], made: TensorType, name: str, constant: Parameters) -> Tensor:  # noqa: ARG001
    (source,) = data
    shape = (*made.shape[:1], *made.shape[2:], made.shape[1]) if len(made.shape) == 4 else made.shape
    plain_source = source.ndim != 4 or source.shape[1:3] == (1, 1)
    plain_result = len(shape) != 4 or shape[1:3] == (1, 1)
    ordered = source
    if not plain_source:
        n, height, width, channels = source.shape
        ordered = compute((n, channels, height, width), lambda n, c, y, x: source[n, y, x, c], f"{name}.channels_first")
    if plain_result:
        return reshaped(ordered, shape, name=name)
    flat = reshaped(ordered, made.shape, name=f"{name}.shaped")
    return compute(shape, lambda n, y, x, c: flat[n, c, y, x], name)


_LOWERINGS: Mapping[type[Layer], Callable[..., Tensor]] = {
    Conv: _conv,
    Product: _product,
    Sum: _sum,
    MaxPool: _max_pool,
    AveragePool: _average,
    Lookup: _lookup,
    Times: _times,
    Reshape: _reshape,
}
