"""Match Gemm and MatMul, with constant weights or of two tensors."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.qdq_groups import MatchContext, NodeGroup, Operand, int16_weights, max_sum
from lathe.frontend.onnx.quant_graph import Layer, Product, TensorProduct, Transpose
from lathe.frontend.onnx.reading import attributes_of
from lathe.frontend.onnx.unsupported import NotOffloadable


def _gemm(ctx: MatchContext, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    alpha, beta = (float(attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    bias = node.input[2] if len(node.input) > 2 and beta else ""
    if not alpha:
        raise NotOffloadable("alpha is 0")
    trans_a, trans_b = (bool(attributes.get(name, 0)) for name in ("transA", "transB"))
    if ctx.values.dequantised_constant(node.input[1]) is None:
        return _tensor_product(ctx, group, (trans_a, trans_b), bias, alpha, beta)
    return _product(ctx, group, trans_a, trans_b, bias, alpha, beta)


def _matmul(ctx: MatchContext, group: NodeGroup) -> Layer:
    weights = ctx.values.dequantised_constant(group.core.input[1])
    if weights is None or weights.values.ndim > 2:
        return _tensor_product(ctx, group)
    return _product(ctx, group)


def _product(
    ctx: MatchContext, group: NodeGroup, trans_a: bool = False, trans_b: bool = False, bias: str = "",
    alpha: float = 1.0, beta: float = 1.0,
) -> Layer:  # fmt: skip
    """alpha · data · weights + beta · bias; ``trans_a``: data is transposed; ``trans_b``: weights are."""
    node = group.core
    data, quant = ctx.operand(node.input[0])
    weights = ctx.values.dequantised_constant(node.input[1])
    if weights is None or weights.values.ndim > 2:
        raise NotOffloadable("its second operand is not a constant 8-bit matrix")
    is_matrix = weights.values.ndim == 2
    scale = weights.scale_along(0 if trans_b else 1) if is_matrix else _single_scale(weights.scale)
    if scale is None:
        raise NotOffloadable("its weights have scales along the reduction axis")
    values = int16_weights(weights.values if trans_b or not is_matrix else weights.values.T)
    values = values.reshape(-1, values.shape[-1])
    scaled = ctx.scaled(group, quant, max_sum(values), scale * alpha, bias, beta, rows=_rows(ctx, group))
    if trans_a:
        data = _transposed(ctx, group, (data, quant, {}))[0]
    return Product(
        group.name, (data,), group.output, (quant,), group.quant, values, scaled.weight_scale, scaled.bias, group.relu,
        nodes=group.numbers, float_sums=scaled.in_float, bias_residual=scaled.rest,
    )  # fmt: skip


def _single_scale(scale: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """The scale of weights that are a vector: there must be one only."""
    return scale if scale.size == 1 else None


def _rows(ctx: MatchContext, group: NodeGroup) -> int:
    shape = ctx.shape(group.output)
    return shape[0] if shape else 1


def _transposed(ctx: MatchContext, group: NodeGroup, operand: Operand) -> Operand:
    """The transposed matrix; adds a Transpose layer unless it is a constant."""
    tensor, quant, constants = operand
    name = f"{tensor}@transposed"
    ctx.note_type(name, quant.dtype, ctx.shape(tensor)[::-1])
    if constants:
        return name, quant, {name: constants[tensor].T}
    if name not in ctx.found.layers:
        ctx.found.layers[name] = Transpose(f"{group.name}.transposed", (tensor,), name, (quant,), quant, (1, 0))
    return name, quant, {}


def _tensor_product(
    ctx: MatchContext, group: NodeGroup, transposed: tuple[bool, bool] = (False, False), bias: str = "",
    alpha: float = 1.0, beta: float = 1.0,
) -> Layer:  # fmt: skip
    """alpha · first · second + beta · bias; ``transposed``: which of the two are transposed."""
    first, second = (
        _transposed(ctx, group, operand) if is_transposed else operand
        for operand, is_transposed in zip(map(ctx.operand_or_constant, group.core.input[:2]), transposed, strict=True)
    )
    (a, of_a, held_a), (b, of_b, held_b) = first, second
    if held_a and held_b:
        raise NotOffloadable("both of its operands are constants")
    shape = ctx.shape(b)
    columns, depth = (shape[-1] if len(shape) > 1 else 1), shape[-2:][0]
    scaled = ctx.scaled(
        group, of_a, 255 * 255 * depth, np.full(columns, of_b.scale * alpha), bias, beta, rows=_rows(ctx, group)
    )
    gain = scaled.weight_scale / of_b.scale
    return TensorProduct(
        group.name, (a, b), group.output, (of_a, of_b), group.quant, group.relu, gain, scaled.bias,
        nodes=group.numbers, constants={**held_a, **held_b}, float_sums=scaled.in_float, bias_residual=scaled.rest,
    )  # fmt: skip


MATMULS: Mapping[str, Callable[[MatchContext, NodeGroup], Layer]] = {"Gemm": _gemm, "MatMul": _matmul}
