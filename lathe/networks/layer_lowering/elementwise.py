"""Lowering of element-wise layers: addition, multiplication, maximum, minimum and lookup."""

from collections.abc import Callable, Mapping
from itertools import chain

import numpy as np

from lathe.frontend import Tensor, compute, max, min, rescale_parameters, rescaled_add_parameters
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.onnx.quant_graph import Extreme, Layer, Lookup, Sum, Times
from lathe.frontend.operators import clip, lookup, requantise, rescaled_add
from lathe.frontend.operators.rescaling import rescaled_sum_value
from lathe.networks.layer_lowering.context import Context, in_common_layout
from lathe.networks.lowered_values import Array, Value, computed, image_shape
from lathe.networks.mixed_radix import indices_of


def _sum(layer: Sum, data: tuple[Value, ...], context: Context) -> Value:
    (a, b), made = layer.input_quants, layer.output_quant
    sign = -1 if layer.minus else 1
    scales, biases = (a.scale / made.scale, sign * b.scale / made.scale), (-a.int8_zero_point, -b.int8_zero_point)
    in_digits = any(value.axes is not None and value.digits(-1) for value in data)
    if in_digits and all(value.shape == context.shape and not value.is_image for value in data):
        return _sum_in_digits(layer, data, context, rescaled_add_parameters(scales, biases, context.shape[-1]))
    left, right = in_common_layout(_broadcast(data, context), context)
    factors = rescaled_add_parameters(scales, biases, left.width)
    found = rescaled_add(
        left.tensor, right.tensor, parameters=context.constant("factors", factors), zero_point=made.int8_zero_point,
        relu=layer.relu, name=context.name,
    )  # fmt: skip
    return context.like(found, left)


def _sum_in_digits(layer: Sum, data: tuple[Value, ...], context: Context, factors: Array) -> Value:
    """The sum in the split layout of the first operand that is a view; the other one is read in its own layout."""
    first = next(value for value in data if value.axes is not None and value.digits(-1))
    digits = tuple(first.digits(n) for n in range(len(first.shape)))
    held = context.constant("factors", factors.reshape(*digits[-1], 2, 2))
    lane = len(digits[-1])

    def element(*i: Expr) -> Expr:
        indices, last = indices_of(i, digits), i[len(i) - lane :]
        rows = [(held[(*last, n, 0)], held[(*last, n, 1)]) for n in (0, 1)]
        values = [value.read(indices) for value in data]
        return rescaled_sum_value(values, rows, layer.output_quant.int8_zero_point, relu=layer.relu)

    return context.in_digits(compute(tuple(chain.from_iterable(digits)), element, context.name), digits)


def _times(layer: Times, data: tuple[Value, ...], context: Context) -> Value:
    (of_a, of_b), made = layer.input_quants, layer.output_quant
    left, right = _broadcastable(data, context)
    whole = left if left.shape == context.shape else right
    a, b = _element_of(left, whole), _element_of(right, whole)

    def product(*i: Expr) -> Expr:
        return (a(i).astype("int32") - of_a.int8_zero_point) * (b(i).astype("int32") - of_b.int8_zero_point)

    products = compute(whole.tensor.shape, product, f"{context.name}.products")
    factors = rescale_parameters(of_a.scale * of_b.scale / made.scale, 0, whole.width)
    found = requantise(
        products, parameters=context.constant("factors", factors), zero_point=made.int8_zero_point, relu=layer.relu,
        name=context.name,
    )  # fmt: skip
    return context.like(found, whole)


def _broadcastable(data: tuple[Value, ...], context: Context) -> tuple[Value, ...]:
    """Operands with the same layout, of which one may have extent 1 along dimensions to broadcast."""
    whole = next((value for value in data if value.shape == context.shape), None)
    if whole is not None and all(
        len(value.shape) == len(whole.shape)
        and value.is_image == whole.is_image
        and value.has_default_layout(context.lanes)
        for value in data
    ):
        return data
    return in_common_layout(_broadcast(data, context), context)


def _element_of(value: Value, whole: Value) -> Callable[[tuple[Expr, ...]], Expr]:
    """A read of an operand at the indices of the operand ``whole``, with broadcasting."""
    shape = value.shape
    extents = (shape[0], *image_shape(shape)[2:], shape[1]) if value.is_image else shape
    if value.shape == whole.shape:
        return lambda i: value.tensor[i]
    return lambda i: value.tensor[tuple(0 if extent == 1 else each for extent, each in zip(extents, i, strict=True))]


def _extreme(layer: Extreme, data: tuple[Value, ...], context: Context) -> Value:
    values = in_common_layout(_broadcast(data, context), context)
    first, *others = (each.tensor for each in values)
    found, chosen = first, max if layer.greatest else min
    for number, other in enumerate(others):
        name = context.name if number == len(others) - 1 else f"{context.name}.of{number + 2}"
        found = compute(found.shape, _of_two(chosen, found, other), name)
    return context.like(found, values[0])


def _of_two(function: Callable[[Expr, Expr], Expr], a: Tensor, b: Tensor) -> Callable[..., Expr]:
    return lambda *i: function(a[i], b[i])


def _broadcast(data: tuple[Value, ...], context: Context) -> tuple[Value, ...]:
    """Operands broadcast to the result's shape, in the layout of the first one that has this shape."""
    whole = next((value for value in data if value.shape == context.shape), None)
    is_image = context.read_as_image if whole is None else whole.is_image

    def broadcast(value: Value, number: int) -> Value:
        def element(*i: Expr) -> Expr:
            own = i[len(i) - len(value.shape) :]
            return value.at(tuple(each * 0 if size == 1 else each for size, each in zip(value.shape, own, strict=True)))

        return computed(context.shape, element, f"{context.name}.whole{number}", context.lanes, is_image=is_image)

    return tuple(
        value if value.shape == context.shape else broadcast(value, number) for number, value in enumerate(data)
    )


def _lookup(layer: Lookup, data: tuple[Value, ...], context: Context) -> Value:
    """A table lookup; rows are indexed by the bits of int8 values: row 255 is for -1. A table that clips is a clip."""
    (source,) = data
    table = own_table(layer)
    if table.ndim > 1:
        source = context.as_image(source) if layer.axis == 1 and len(context.shape) > 2 else context.as_plain(source)
        table = source.spread(table, 1)
    in_order = np.concatenate((table[128:], table[:128])).astype(np.int64)
    if table.ndim == 1 and np.array_equal(in_order, np.clip(np.arange(-128, 128), in_order[0], in_order[-1])):
        found = clip(source.tensor, int(in_order[0]), int(in_order[-1]), name=context.name)
    else:
        found = lookup(source.tensor, context.constant("table", table), name=context.name)
    return context.like(found, source)


def own_table(layer: Lookup) -> Array:
    """The machine's table of a function: int8 values, with uint8 ones minus 128, and the result for -1 in row 255."""
    made = layer.table.astype(np.int64) - (128 if layer.output_quant.dtype == "uint8" else 0)
    of_values: Array = made.astype(np.int8)  # of -128 to 127
    return np.concatenate((of_values[128:], of_values[:128]))


ELEMENTWISE: Mapping[type[Layer], Callable[..., Value]] = {Extreme: _extreme, Lookup: _lookup, Sum: _sum, Times: _times}
