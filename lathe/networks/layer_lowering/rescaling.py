"""Sums of products, brought to the 8 bits of a layer's output."""

from collections.abc import Callable

import numpy as np

from lathe.frontend import Tensor, compute, rescale_parameters
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.onnx.qdq_groups import greatest_sum
from lathe.frontend.onnx.quant_graph import Conv, ConvTranspose, Product
from lathe.frontend.operators import bias_add, requantise, rescaled_add
from lathe.frontend.operators.rescaling import rescaled_sum_value, rescaled_value
from lathe.networks.layer_lowering.bias_residuals import with_rests
from lathe.networks.layer_lowering.context import Context, padded, wrapped
from lathe.networks.layer_lowering.padding_correction import SumsOfWeights, rescaled_by_place
from lathe.networks.lowered_values import Array, Value


def rescaled_sums(
    layer: Conv | ConvTranspose | Product,
    sums: Tensor,
    per_filter: SumsOfWeights,
    context: Context,
    name: str = "",
    like: Value | None = None,
) -> Tensor:
    """Sums of products as values of the output; ``per_filter`` are the sums of each filter's weights.

    Filters lie as the channels of ``like`` do, or else one behind the other.
    """
    made = layer.of_output
    factors = factors_of(layer, per_filter)
    axis = factors.ndim - (2 if layer.rest is None else 3)
    placed = padded(factors, axis, sums.shape[-1]) if like is None else like.spread(factors, axis)
    held = context.constant("factors", placed)
    if (places := per_filter.places) is not None and factors.ndim > (2 if layer.rest is None else 3):
        return rescaled_by_place(sums, held, places, made.own_zero, layer.relu, name or context.name)
    if layer.bias.ndim > 1:
        return rescaled_by_row(sums, held, made.own_zero, layer.relu, name or context.name)
    if layer.rest is not None:
        return rescaled_add(
            sums, sums, parameters=held, zero_point=made.own_zero, relu=layer.relu, name=name or context.name
        )
    return requantise(sums, parameters=held, zero_point=made.own_zero, relu=layer.relu, name=name or context.name)


def rescaled_by_row(sums: Tensor, parameters: Tensor, zero_point: int, relu: bool, name: str) -> Tensor:
    """Sums (M, N) as int8, with parameters (M, N, 2), or (M, N, 2, 2), of which each row is as for all rows."""

    def element(i: Expr, j: Expr) -> Expr:
        value = sums[i, j]
        if parameters.ndim > 3:
            pairs = [(parameters[i, j, part, 0], parameters[i, j, part, 1]) for part in (0, 1)]
            return rescaled_sum_value((value, value), pairs, zero_point, relu=relu)
        return rescaled_value(value, parameters[i, j, 0], parameters[i, j, 1], zero_point, relu=relu)

    return compute(sums.shape, element, name)


def factors_of(layer: Conv | ConvTranspose | Product, per_filter: SumsOfWeights) -> Array:
    """Rows [bias, word] for each filter, (filters, 2); (rows, columns, filters, 2) where biases differ by place.

    (rows, filters, 2) where the rows of a matrix have biases of their own.

    Of biases with rests they are pairs of rows, (..., filters, 2, 2), as ``rescaled_add`` takes them.
    """
    (how,), made = layer.of_inputs, layer.of_output
    bias = wrapped(layer.bias - how.own_zero * per_filter.sums)
    if per_filter.places is not None and np.all(bias == bias[0, 0]):
        bias = bias[0, 0]
    scale = np.broadcast_to(how.scale * layer.weight_scale / made.scale, bias.shape)
    factors = rescale_parameters(scale.reshape(-1), bias.reshape(-1)).reshape(*bias.shape, 2)
    return factors if layer.rest is None else with_rests(factors, layer.rest)


def results_of(
    layer: Conv | ConvTranspose | Product,
    sums: Callable[[str], Tensor],
    per_filter: SumsOfWeights,
    context: Context,
    name: str = "",
    like: Value | None = None,
) -> tuple[Tensor, ...]:
    """What a layer makes of its ``sums``, stages by their names: values of 8 bits, or their own bytes from the lowest.

    Machines store bytes. Each is made of sums of its own: those of one product do not stay where they are until all
    of their bytes are stored, and going to memory and back takes longer than a product.
    """
    if layer.of_output.dtype != "int32":
        return (rescaled_sums(layer, sums(f"{context.name}.sums"), per_filter, context, name, like),)
    (how,) = layer.of_inputs
    bias = wrapped(layer.bias - how.own_zero * per_filter.everywhere)
    made: list[Tensor] = []
    held: Tensor | None = None
    for number in range(bytes_of(greatest_sum(layer.weights))):
        whole = sums(f"{context.name}.sums{number}")
        if bias.any():
            if held is None:
                placed = padded(bias, 0, whole.shape[-1]) if like is None else like.spread(bias, 0)
                held = context.constant("bias", placed)
            whole = bias_add(whole, held, name=f"{context.name}.biased{number}")
        made.append(byte_of(whole, number, f"{name or context.name}.byte{number}"))
    return tuple(made)


def byte_of(sums: Tensor, number: int, name: str) -> Tensor:
    """A byte of sums, the lowest being number 0."""
    return compute(sums.shape, lambda *i: (sums[i] >> 8 * number if number else sums[i]).astype("int8"), name)


def bytes_of(most: int) -> int:
    """Bytes that sums of so great a magnitude fit into."""
    return min(-(-(most.bit_length() + 1) // 8), 4)


def terms_of(weights: Array) -> list[Array]:
    """Weights of int8 whose sum some weights are, of -255 to 255: themselves, if they can be."""
    terms, rest = list[Array](), weights.astype(np.int64)
    while not terms or np.any(rest):
        terms.append(np.clip(rest, -128, 127).astype(np.int8))
        rest = rest - terms[-1]
    return terms
