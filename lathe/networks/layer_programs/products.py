"""Matrix products with weights, and of two tensors."""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from lathe.frontend import Tensor, compute, reduce_axis, rescale_parameters, sum
from lathe.frontend.onnx.layers import Layer, Product, TensorProduct
from lathe.frontend.operand import Expr
from lathe.frontend.operators import dense, requantise
from lathe.frontend.operators import reshape as reshaped
from lathe.networks.layer_programs.borders import SumsOfWeights
from lathe.networks.layer_programs.context import Context
from lathe.networks.layer_programs.rescaling import results_of, terms_of
from lathe.networks.values import Array, Value


def _product(layer: Product, data: tuple[Value, ...], context: Context) -> Value:
    rows = context.as_plain(data[0]).tensor
    flat = (
        rows if rows.ndim == 2 else reshaped(rows, (prod(rows.shape[:-1]), rows.shape[-1]), name=f"{context.name}.rows")
    )
    per_filter = SumsOfWeights.of(layer.weights)
    sums = _sums(flat, terms_of(layer.weights), context)
    if rows.ndim == 2:
        first, *more = results_of(layer, sums, per_filter, context)
        return context.plain(first, tuple(more))
    made = results_of(layer, sums, per_filter, context, f"{context.name}.flat")
    names = [f"{context.name}.whole{number}" if number else context.name for number in range(len(made))]
    first, *more = (reshaped(each, context.shape, name=name) for each, name in zip(made, names, strict=True))
    return context.plain(first, tuple(more))


def _sums(rows: Tensor, terms: list[Array], context: Context) -> Callable[[str], Tensor]:
    """Products of rows with the sum of several weights (N, K): stages, by their names."""
    if len(terms) == 1:
        plain = context.constant("weights", terms[0])
        return lambda name: dense(rows, plain, name=name)
    weights = context.constant("weights", np.stack(terms))
    term, k = reduce_axis(len(terms), "term"), reduce_axis(rows.shape[1], "k")
    return lambda name: compute(
        (rows.shape[0], weights.shape[1]),
        lambda i, j: sum(rows[i, k].astype("int32") * weights[term, j, k].astype("int32"), axis=(term, k)),
        name,
    )


def _tensor_product(layer: TensorProduct, data: tuple[Value, ...], context: Context) -> Value:
    """Sums of products; of what zero points add, sums of rows and of columns are taken away again.

    Σ (a - p)(b - q) = Σ ab - q Σ a - p Σ b + Kpq: the second is a product with weights that are all q, so many as a
    block has lanes, the third one with a row of values that are all p.
    """
    a, b = (context.as_plain(each).tensor for each in data)
    (of_a, of_b), made = layer.of_inputs, layer.of_output
    depth, columns = a.shape[-1], context.shape[-1]
    k = reduce_axis(depth, "k")

    def product(i: tuple[Expr, ...]) -> Expr:
        left, right = _repeated(a, (*i[:-1], k)), _repeated(b, (*i[:-2], k, i[-1]))
        return sum(left.astype("int32") * right.astype("int32"), axis=k)

    sums = compute(context.shape, lambda *i: product(i), f"{context.name}.sums")
    terms: list[Callable[[tuple[Expr, ...]], Expr]] = []
    if of_b.own_zero:
        lanes = min(columns, context.lanes)
        of_rows = context.constant("zeros_b", np.full((lanes, depth), of_b.own_zero, np.int8))
        rows = compute(
            (*a.shape[:-1], lanes),
            lambda *i: sum(a[(*i[:-1], k)].astype("int32") * of_rows[i[-1], k].astype("int32"), axis=k),
            f"{context.name}.rows",
        )
        terms.append(lambda i: _repeated(rows, (*i[:-1], i[-1] % lanes if columns > lanes else i[-1])))
    if of_a.own_zero:
        of_columns = context.constant("zeros_a", np.full((1, depth), of_a.own_zero, np.int8))
        below = compute(
            (*b.shape[:-2], 1, columns),
            lambda *i: sum(of_columns[i[-2], k].astype("int32") * b[(*i[:-2], k, i[-1])].astype("int32"), axis=k),
            f"{context.name}.columns",
        )
        terms.append(lambda i: _repeated(below, i))
    if terms:
        plain = sums

        def corrected(*i: Expr) -> Expr:
            value: Expr = plain[i]
            for term in terms:
                value = value - term(i)
            return value

        sums = compute(context.shape, corrected, f"{context.name}.corrected")
    factors = rescale_parameters(
        of_a.scale * of_b.scale / made.scale, depth * of_a.own_zero * of_b.own_zero, sums.shape[-1]
    )
    found = requantise(
        sums, parameters=context.constant("factors", factors), zero_point=made.own_zero, relu=layer.relu,
        name=context.name,
    )  # fmt: skip
    return context.plain(found)


def _repeated(tensor: Tensor, indices: tuple[Any, ...]) -> Expr:
    """The element at indices of a result that has more dimensions perhaps, or repeats some."""
    own = indices[len(indices) - tensor.ndim :]
    return tensor[tuple(0 if extent == 1 else each for extent, each in zip(tensor.shape, own, strict=True))]


PRODUCTS: Mapping[type[Layer], Callable[..., Value]] = {Product: _product, TensorProduct: _tensor_product}
