"""Matrix products with weights, and of two tensors."""

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from lathe.frontend import reduce_axis, rescale_parameters, sum
from lathe.frontend.nodes import AxisRef
from lathe.frontend.onnx.layers import Layer, Product, TensorProduct
from lathe.frontend.operand import Expr
from lathe.frontend.operators import dense, requantise
from lathe.frontend.operators import reshape as reshaped
from lathe.networks.layer_programs.context import Context
from lathe.networks.layer_programs.rescaling import rescaled_sums
from lathe.networks.values import Value, computed


def _product(layer: Product, data: tuple[Value, ...], context: Context) -> Value:
    rows = data[0].dense(f"{context.name}.data").tensor
    weights = context.constant("weights", layer.weights)
    flat = (
        rows if rows.ndim == 2 else reshaped(rows, (prod(rows.shape[:-1]), rows.shape[-1]), name=f"{context.name}.rows")
    )
    per_filter = layer.weights.astype(np.int64).sum(axis=1)
    sums = dense(flat, weights, name=f"{context.name}.sums")
    if rows.ndim == 2:
        return context.image(rescaled_sums(layer, sums, per_filter, context))
    found = rescaled_sums(layer, sums, per_filter, context, f"{context.name}.flat")
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


PRODUCTS: Mapping[type[Layer], Callable[..., Value]] = {Product: _product, TensorProduct: _tensor_product}
