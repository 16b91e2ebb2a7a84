"""Matrix products with weights, and of two tensors."""

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from lathe.frontend import compute, reduce_axis, rescale_parameters, sum
from lathe.frontend.onnx.layers import Layer, Product, TensorProduct
from lathe.frontend.operand import Expr
from lathe.frontend.operators import dense, requantise
from lathe.frontend.operators import reshape as reshaped
from lathe.networks.layer_programs.context import Context
from lathe.networks.layer_programs.rescaling import rescaled_sums
from lathe.networks.values import Value


def _product(layer: Product, data: tuple[Value, ...], context: Context) -> Value:
    rows = context.as_plain(data[0]).tensor
    weights = context.constant("weights", layer.weights)
    flat = (
        rows if rows.ndim == 2 else reshaped(rows, (prod(rows.shape[:-1]), rows.shape[-1]), name=f"{context.name}.rows")
    )
    per_filter = layer.weights.astype(np.int64).sum(axis=1)
    sums = dense(flat, weights, name=f"{context.name}.sums")
    if rows.ndim == 2:
        return context.plain(rescaled_sums(layer, sums, per_filter, context))
    found = rescaled_sums(layer, sums, per_filter, context, f"{context.name}.flat")
    return context.plain(reshaped(found, context.shape, name=context.name))


def _tensor_product(layer: TensorProduct, data: tuple[Value, ...], context: Context) -> Value:
    a, b = (context.as_plain(each).tensor for each in data)
    of_a, of_b = layer.of_inputs
    k = reduce_axis(a.shape[-1], "k")

    def element(*i: Expr) -> Expr:
        return sum(a[(*i[:-1], k)].astype("int32") * b[(*i[:-2], k, i[-1])].astype("int32"), axis=k)

    sums = compute(context.shape, element, f"{context.name}.sums")
    factors = rescale_parameters(of_a.scale * of_b.scale / layer.of_output.scale, 0, sums.shape[-1])
    found = requantise(
        sums, parameters=context.constant("factors", factors), zero_point=layer.of_output.own_zero, relu=layer.relu,
        name=context.name,
    )  # fmt: skip
    return context.plain(found)


PRODUCTS: Mapping[type[Layer], Callable[..., Value]] = {Product: _product, TensorProduct: _tensor_product}
