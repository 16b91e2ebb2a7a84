"""Sums and products of two tensors, element by element, and functions of one."""

from collections.abc import Callable, Mapping

import numpy as np

from lathe.frontend import compute, rescale_parameters, rescaled_add_parameters
from lathe.frontend.onnx.layers import Layer, Lookup, Sum, Times
from lathe.frontend.operand import Expr
from lathe.frontend.operators import clip, lookup, requantise, rescaled_add
from lathe.networks.layer_programs.context import Context, alike
from lathe.networks.values import Array, Value


def _sum(layer: Sum, data: tuple[Value, ...], context: Context) -> Value:
    (a, b), made = layer.of_inputs, layer.of_output
    left, right = alike(data, context)
    factors = rescaled_add_parameters(
        (a.scale / made.scale, b.scale / made.scale), (-a.own_zero, -b.own_zero), left.width
    )
    found = rescaled_add(
        left.tensor, right.tensor, parameters=context.constant("factors", factors), zero_point=made.own_zero,
        relu=layer.relu, name=context.name,
    )  # fmt: skip
    return context.like(found, left)


def _times(layer: Times, data: tuple[Value, ...], context: Context) -> Value:
    (of_a, of_b), made = layer.of_inputs, layer.of_output
    left, right = alike(data, context)
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
    return context.like(found, left)


def _lookup(layer: Lookup, data: tuple[Value, ...], context: Context) -> Value:
    """Tables by the bits of the machine's own values: row 255 is that of -1. One that only clips does so."""
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
    """The table of a function as the machine has it: int8, by the values less 128 of uint8, -1 in row 255."""
    made = layer.table.astype(np.int64) - (128 if layer.of_output.dtype == "uint8" else 0)
    of_values: Array = made.astype(np.int8)  # of -128 to 127
    return np.concatenate((of_values[128:], of_values[:128]))


ELEMENTWISE: Mapping[type[Layer], Callable[..., Value]] = {Lookup: _lookup, Sum: _sum, Times: _times}
