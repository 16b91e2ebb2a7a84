"""Lowering of matmuls with weights, and of two tensors."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import chain
from math import prod

import numpy as np

from lathe.frontend import Tensor, compute, reduce_axis, rescale_parameters
from lathe.frontend import sum as summed
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis
from lathe.frontend.onnx.quant_graph import Layer, Product, TensorProduct
from lathe.frontend.operators import bias_add, dense, requantise
from lathe.frontend.operators import reshape as reshaped
from lathe.frontend.operators.rescaling import rescaled_sum_value, rescaled_value
from lathe.networks.layer_lowering.bias_residuals import with_bias_residuals
from lathe.networks.layer_lowering.context import Context, plain_in_digits, wrapped
from lathe.networks.layer_lowering.padding_correction import SumsOfWeights
from lathe.networks.layer_lowering.rescaling import byte_of, bytes_of, factors_of, results_of, terms_of
from lathe.networks.lowered_values import Array, Shape, Value
from lathe.networks.mixed_radix import Index, indices_of


def _product(layer: Product, data: tuple[Value, ...], context: Context) -> Value:
    if context.digits is not None or data[0].axes is not None:
        source = context.as_readable(data[0])
        in_digits = layer.output_quant.dtype != "int32" and len(terms_of(layer.weights)) == 1 and layer.bias.ndim == 1
        in_digits = in_digits and len(context.shape) == len(source.shape)  # not by a vector, without output channels
        if in_digits and source.digits(-1) and context.result_digits[-1]:
            return _product_in_digits(layer, source, context)
    rows = context.as_plain(data[0]).tensor
    flat = (
        rows if rows.ndim == 2 else reshaped(rows, (prod(rows.shape[:-1]), rows.shape[-1]), name=f"{context.name}.rows")
    )
    per_filter = SumsOfWeights.of(layer.weights)
    sums = _sums(flat, terms_of(layer.weights), context)
    if rows.ndim == len(context.shape) == 2:
        first, *more = results_of(layer, sums, per_filter, context)
        return context.plain(first, tuple(more))
    made = results_of(layer, sums, per_filter, context, f"{context.name}.flat")
    names = [f"{context.name}.whole{number}" if number else context.name for number in range(len(made))]
    first, *more = (reshaped(each, context.shape, name=name) for each, name in zip(made, names, strict=True))
    return context.plain(first, tuple(more))


def _sums(rows: Tensor, terms: list[Array], context: Context) -> Callable[[str], Tensor]:
    """A builder, by stage name, of the matmul of rows with weights (N, K) that are the sum of ``terms``."""
    if len(terms) == 1:
        plain = context.constant("weights", terms[0])
        return lambda name: dense(rows, plain, name=name)
    weights = context.constant("weights", np.stack(terms))
    term, k = reduce_axis(len(terms), "term"), reduce_axis(rows.shape[1], "k")
    return lambda name: compute(
        (rows.shape[0], weights.shape[1]),
        lambda i, j: summed(rows[i, k].astype("int32") * weights[term, j, k].astype("int32"), axis=(term, k)),
        name,
    )


def _product_in_digits(layer: Product, data: Value, context: Context) -> Value:
    """The matmul with split output channels and a split reduction, so that neither tensor needs data movement."""
    digits = context.result_digits
    depth, filters = data.digits(-1), digits[-1]
    sum_over = tuple(reduce_axis(extent, f"k{number}") for number, extent in enumerate(depth))
    weights = context.constant("weights", layer.weights.astype(np.int8).reshape(*filters, *depth))
    rows = sum(len(extents) for extents in digits[:-1])

    def product(*i: Expr) -> Expr:
        element = data.read([*indices_of(i[:rows], digits[:-1]), _index_of(sum_over)])
        return summed(element.astype("int32") * weights[(*i[rows:], *sum_over)].astype("int32"), axis=sum_over)

    sums = compute(tuple(chain.from_iterable(digits)), product, f"{context.name}.sums")
    return _rescaled_in_digits(layer, sums, factors_of(layer, SumsOfWeights.of(layer.weights)), digits, context)


def _rescaled_in_digits(
    layer: Product | TensorProduct, sums: Tensor, factors: Array, digits: tuple[Shape, ...], context: Context
) -> Value:
    """Rescale sums to 8 bits, with ``factors`` for each column, (J, 2), or for each row and column, (I, J, 2).

    With fractional biases they are pairs, (..., 2, 2). ``digits``: the extents that each dimension is split into.
    """
    own = factors.shape[: factors.ndim - (1 if layer.bias_residual is None else 2)]
    extents = tuple(chain.from_iterable(digits[len(digits) - len(own) :]))
    held = context.constant("factors", factors.reshape(*extents, *factors.shape[len(own) :]))

    def rescaled(*i: Expr) -> Expr:
        position = i[len(i) - len(extents) :]
        if layer.bias_residual is not None:
            pairs = [(held[(*position, part, 0)], held[(*position, part, 1)]) for part in (0, 1)]
            return rescaled_sum_value((sums[i], sums[i]), pairs, layer.output_quant.int8_zero_point, relu=layer.relu)
        bias, word = (held[(*position, number)] for number in (0, 1))
        return rescaled_value(sums[i], bias, word, layer.output_quant.int8_zero_point, relu=layer.relu)

    return context.in_digits(compute(sums.shape, rescaled, context.name), context.result_digits)


def _tensor_product(layer: TensorProduct, data: tuple[Value, ...], context: Context) -> Value:
    """A matmul of two tensors, corrected for zero points by sums of rows and of columns.

    Σ (a - p)(b - q) = Σ ab - q Σ a - p Σ b + Kpq: the second term is a matmul with weights that are all q, one column
    for each lane, the third one a matmul with a row of values that are all p.
    """
    a, b = (context.as_readable(each, number) for number, each in enumerate(data))
    a, b, digits = _as_matrices(a, b, context.result_digits)
    if not a.digits(-1) or [n for n in a.digits(-1) if n > 1] != [n for n in b.digits(-2) if n > 1]:
        a, b = (context.as_plain(each, number) for number, each in enumerate((a, b)))
    (of_a, of_b), made = layer.input_quants, layer.output_quant
    depth, columns = a.shape[-1], prod(digits[-1])
    zeros_a, zeros_b = None, None
    if of_b.int8_zero_point:
        lanes = columns if columns % context.lanes else context.lanes
        zeros_b = context.constant("zeros_b", np.full((lanes, *a.digits(-1)), of_b.int8_zero_point, np.int8))
    if of_a.int8_zero_point:
        zeros_a = context.constant("zeros_a", np.full((1, *a.digits(-1)), of_a.int8_zero_point, np.int8))
    constant = depth * of_a.int8_zero_point * of_b.int8_zero_point
    if made.dtype == "int32":
        bytes_made = []
        held = None
        for number in range(bytes_of(255 * 255 * depth)):
            sums = _sums_of_tensors(a, b, zeros_a, zeros_b, f"{number}", digits, context)
            if constant and held is None:
                held = context.constant("bias", wrapped(np.full(sums.shape[-1], constant)))
            whole = sums if held is None else bias_add(sums, held, name=f"{context.name}.biased{number}")
            bytes_made.append(byte_of(whole, number, f"{context.name}.byte{number}"))
        return replace(context.in_digits(bytes_made[0], context.result_digits), more=tuple(bytes_made[1:]))
    sums = _sums_of_tensors(a, b, zeros_a, zeros_b, "", digits, context)
    scale, bias = of_a.scale * of_b.scale * layer.gain / made.scale, wrapped(layer.bias + constant)
    if layer.bias_residual is None and np.all(scale == scale[0]) and np.all(bias == bias.flat[0]):
        factors = rescale_parameters(scale[0], bias.flat[0], sums.shape[-1])
        found = requantise(
            sums, parameters=context.constant("factors", factors), zero_point=made.int8_zero_point, relu=layer.relu,
            name=context.name,
        )  # fmt: skip
        return context.in_digits(found, context.result_digits)
    per_place = (*bias.shape[:-1], columns)
    factors = rescale_parameters(
        np.broadcast_to(scale, per_place).reshape(-1), np.broadcast_to(bias, per_place).reshape(-1)
    )
    factors = factors.reshape(*per_place, 2)
    factors = (
        factors
        if layer.bias_residual is None
        else with_bias_residuals(factors, np.broadcast_to(layer.bias_residual, per_place))
    )
    return _rescaled_in_digits(layer, sums, factors, digits, context)


def _as_matrices(a: Value, b: Value, digits: tuple[Shape, ...]) -> tuple[Value, Value, tuple[Shape, ...]]:
    """Operands that are vectors as matrices of one row or column, and the split of the matmul's dimensions.

    An added dimension has no digits, so that the result has the same axes without it.
    """
    is_row, is_column = len(a.shape) == 1, len(b.shape) == 1
    if is_row:
        a = a.view((1, *a.shape), ((), *a.own_axes))
    if is_column:
        b = b.view((*b.shape, 1), (*b.own_axes, ()))
    if is_row:  # of two vectors, the result has one digit of extent 1
        digits = (*digits[:-1], (), digits[-1])
    elif is_column:
        digits = (*digits, ())
    return a, b, digits


def _sums_of_tensors(
    a: Value,
    b: Value,
    zeros_a: Tensor | None,
    zeros_b: Tensor | None,
    suffix: str,
    digits: tuple[Shape, ...],
    context: Context,
) -> Tensor:
    """The int32 sums of a matmul, minus the corrections for zero points, if any."""
    sum_over = tuple(reduce_axis(extent, f"k{number}" if number else "k") for number, extent in enumerate(a.digits(-1)))
    along = _index_of(sum_over)

    def product(*i: Expr) -> Expr:
        *others, row, column = indices_of(i, digits)
        left, right = _broadcast(a, [*others, row, along]), _broadcast(b, [*others, along, column])
        return summed(left.astype("int32") * right.astype("int32"), axis=sum_over)

    sums = compute(tuple(chain.from_iterable(digits)), product, f"{context.name}.sums{suffix}")
    terms: list[Callable[[list[Index]], Expr]] = []
    if zeros_b is not None:
        rows = _sums_of_rows(a, sum_over, zeros_b, f"{context.name}.rows{suffix}")
        terms.append(lambda i: _broadcast(rows, [*i[:-1], _modulo(i[-1], rows.shape[-1])]))
    if zeros_a is not None:
        below = _sums_of_columns(b, sum_over, zeros_a, f"{context.name}.columns{suffix}")
        terms.append(lambda i: _broadcast(below, i))
    if not terms:
        return sums

    def corrected(*i: Expr) -> Expr:
        value: Expr = sums[i]
        for term in terms:
            value = value - term(indices_of(i, digits))
        return value

    return compute(sums.shape, corrected, f"{context.name}.corrected{suffix}")


def _sums_of_rows(a: Value, sum_over: tuple[Axis, ...], weights: Tensor, name: str) -> Value:
    """The sums of rows times the zero point in ``weights`` (lanes, ...), with a copy in each lane."""
    lanes = weights.shape[0]
    digits = (*(a.digits(n) for n in range(len(a.shape) - 1)), (lanes,))
    along = _index_of(sum_over)

    def element(*i: Expr) -> Expr:
        data = a.read([*indices_of(i, digits)[:-1], along])
        return summed(data.astype("int32") * weights[(i[-1], *along.digits)].astype("int32"), axis=sum_over)

    made = compute(tuple(chain.from_iterable(digits)), element, name)
    return plain_in_digits(made, (*a.shape[:-1], lanes), digits)


def _sums_of_columns(b: Value, sum_over: tuple[Axis, ...], weights: Tensor, name: str) -> Value:
    """The sums of columns times the zero point in ``weights`` (1, ...), as a matrix of one row."""
    others = tuple(b.digits(n) for n in range(len(b.shape) - 2))
    digits = (*others, (1,), b.digits(len(b.shape) - 1))
    along = _index_of(sum_over)

    def element(*i: Expr) -> Expr:
        *before, row, column = indices_of(i, digits)
        data = b.read([*before, along, column])
        return summed(weights[(*row.digits, *along.digits)].astype("int32") * data.astype("int32"), axis=sum_over)

    made = compute(tuple(chain.from_iterable(digits)), element, name)
    return plain_in_digits(made, (*b.shape[:-2], 1, b.shape[-1]), digits)


def _index_of(axes: tuple[Axis, ...]) -> Index:
    """The index of a reduction dimension, from its axes."""
    return Index(tuple(axis.extent for axis in axes), axes)


def _modulo(index: Index, lanes: int) -> Index:
    """An index modulo ``lanes``, for a tensor with the same value in all lanes."""
    if prod(index.extents) == lanes:
        return index
    last = index.digits[-1]
    return Index((lanes,), (last % lanes if index.extents[-1] > lanes else last,))


def _broadcast(value: Value, indices: list[Index]) -> Expr:
    """The element of an operand that is broadcast to the result's indices."""
    own = indices[len(indices) - len(value.shape) :]
    return value.read([each if extent > 1 else Index((), ()) for extent, each in zip(value.shape, own, strict=True)])


MATMULS: Mapping[type[Layer], Callable[..., Value]] = {Product: _product, TensorProduct: _tensor_product}
