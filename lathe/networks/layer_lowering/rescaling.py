"""Rescaling of int32 sums to a layer's 8-bit output."""

from collections.abc import Callable

import numpy as np

from lathe.frontend import Tensor, compute, rescale_parameters
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.onnx.qdq_groups import max_sum
from lathe.frontend.onnx.quant_graph import Conv, ConvTranspose, Product
from lathe.frontend.operators import bias_add, requantise, rescaled_add
from lathe.frontend.operators.rescaling import rescaled_sum_value, rescaled_value
from lathe.networks.layer_lowering.bias_residuals import with_bias_residuals
from lathe.networks.layer_lowering.context import Context, padded, wrapped
from lathe.networks.layer_lowering.padding_correction import SumsOfWeights, rescale_by_region
from lathe.networks.lowered_values import Array, Value


def rescaled_sums(
    layer: Conv | ConvTranspose | Product,
    sums: Tensor,
    per_filter: SumsOfWeights,
    context: Context,
    name: str = "",
    like: Value | None = None,
) -> Tensor:
    """Rescale sums to values of the output; ``per_filter``: the sums of each output channel's weights.

    Output channels are at the positions of the channels of ``like``, by default in order.
    """
    made = layer.output_quant
    factors = factors_of(layer, per_filter)
    axis = factors.ndim - (2 if layer.bias_residual is None else 3)
    placed = padded(factors, axis, sums.shape[-1]) if like is None else like.spread(factors, axis)
    held = context.constant("factors", placed)
    if (regions := per_filter.regions) is not None and factors.ndim > (2 if layer.bias_residual is None else 3):
        return rescale_by_region(sums, held, regions, made.int8_zero_point, layer.relu, name or context.name)
    if layer.bias.ndim > 1:
        return rescaled_by_row(sums, held, made.int8_zero_point, layer.relu, name or context.name)
    if layer.bias_residual is not None:
        return rescaled_add(
            sums, sums, parameters=held, zero_point=made.int8_zero_point, relu=layer.relu, name=name or context.name
        )
    return requantise(
        sums, parameters=held, zero_point=made.int8_zero_point, relu=layer.relu, name=name or context.name
    )


def rescaled_by_row(sums: Tensor, parameters: Tensor, zero_point: int, relu: bool, name: str) -> Tensor:
    """Rescale sums (M, N) to int8, with parameters (M, N, 2) or (M, N, 2, 2) for each row and column."""

    def element(i: Expr, j: Expr) -> Expr:
        value = sums[i, j]
        if parameters.ndim > 3:
            pairs = [(parameters[i, j, part, 0], parameters[i, j, part, 1]) for part in (0, 1)]
            return rescaled_sum_value((value, value), pairs, zero_point, relu=relu)
        return rescaled_value(value, parameters[i, j, 0], parameters[i, j, 1], zero_point, relu=relu)

    return compute(sums.shape, element, name)


def factors_of(layer: Conv | ConvTranspose | Product, per_filter: SumsOfWeights) -> Array:
    """Rescale parameters [bias, word] for each output channel, (channels, 2).

    (rows, columns, channels, 2) if biases differ by region, (rows, channels, 2) if they differ by row of a matrix. With
    fractional biases, pairs for ``rescaled_add``: (..., channels, 2, 2).
    """
    (quant,), made = layer.input_quants, layer.output_quant
    bias = wrapped(layer.bias - quant.int8_zero_point * per_filter.sums)
    if per_filter.regions is not None and np.all(bias == bias[0, 0]):
        bias = bias[0, 0]
    scale = np.broadcast_to(quant.scale * layer.weight_scale / made.scale, bias.shape)
    factors = rescale_parameters(scale.reshape(-1), bias.reshape(-1)).reshape(*bias.shape, 2)
    return factors if layer.bias_residual is None else with_bias_residuals(factors, layer.bias_residual)


def results_of(
    layer: Conv | ConvTranspose | Product,
    sums: Callable[[str], Tensor],
    per_filter: SumsOfWeights,
    context: Context,
    name: str = "",
    like: Value | None = None,
) -> tuple[Tensor, ...]:
    """The result of a layer: the rescaled ``sums`` (a builder, by stage name), or their byte planes from the lowest.

    The machine stores bytes. Each plane recomputes the sums: accumulators do not stay allocated until all planes are
    stored, and spilling them takes longer than recomputing.
    """
    if layer.output_quant.dtype != "int32":
        return (rescaled_sums(layer, sums(f"{context.name}.sums"), per_filter, context, name, like),)
    (quant,) = layer.input_quants
    bias = wrapped(layer.bias - quant.int8_zero_point * per_filter.of_all_taps)
    made: list[Tensor] = []
    held: Tensor | None = None
    for number in range(bytes_of(max_sum(layer.weights))):
        whole = sums(f"{context.name}.sums{number}")
        if bias.any():
            if held is None:
                placed = padded(bias, 0, whole.shape[-1]) if like is None else like.spread(bias, 0)
                held = context.constant("bias", placed)
            whole = bias_add(whole, held, name=f"{context.name}.biased{number}")
        made.append(byte_of(whole, number, f"{name or context.name}.byte{number}"))
    return tuple(made)


def byte_of(sums: Tensor, number: int, name: str) -> Tensor:
    """Byte ``number`` of sums, from the lowest, 0, on."""
    return compute(sums.shape, lambda *i: (sums[i] >> 8 * number if number else sums[i]).astype("int8"), name)


def bytes_of(most: int) -> int:
    """The number of bytes of sums whose magnitude is at most ``most``, up to 4."""
    return min(-(-(most.bit_length() + 1) // 8), 4)


def terms_of(weights: Array) -> list[Array]:
    """int8 weights whose sum is ``weights``, of -255 to 255: one array if they fit int8."""
    terms, rest = list[Array](), weights.astype(np.int64)
    while not terms or np.any(rest):
        terms.append(np.clip(rest, -128, 127).astype(np.int8))
        rest = rest - terms[-1]
    return terms
