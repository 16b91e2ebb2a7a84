"""Matrix products as layers: with weights, and of two tensors."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.qdq_groups import NodeGroup, Operand, Operands, greatest_sum, weights_of
from lathe.frontend.onnx.quant_graph import Layer, Product, TensorProduct, Transpose
from lathe.frontend.onnx.reading import attributes_of
from lathe.frontend.onnx.unsupported import NotOffloadable


def _gemm(of: Operands, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    alpha, beta = (float(attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    bias = node.input[2] if len(node.input) > 2 and beta else ""
    if not alpha:
        raise NotOffloadable("its product counts nothing")
    turned, transposed = (bool(attributes.get(name, 0)) for name in ("transA", "transB"))
    if of.values.constant_behind(node.input[1]) is None:
        return _tensor_product(of, group, (turned, transposed), bias, alpha, beta)
    return _product(of, group, turned, transposed, bias, alpha, beta)


def _matmul(of: Operands, group: NodeGroup) -> Layer:
    weights = of.values.constant_behind(group.core.input[1])
    if weights is None or weights.values.ndim > 2:
        return _tensor_product(of, group)
    return _product(of, group)


def _product(
    of: Operands, group: NodeGroup, turned: bool = False, transposed: bool = False, bias: str = "",
    alpha: float = 1.0, beta: float = 1.0,
) -> Layer:  # fmt: skip
    """alpha · data · weights + beta · bias; ``turned`` says it of data, ``transposed`` of weights."""
    node = group.core
    data, how = of.operand(node.input[0])
    weights = of.values.constant_behind(node.input[1])
    if weights is None or weights.values.ndim > 2:
        raise NotOffloadable("its second operand is no constant matrix of 8 bits")
    is_matrix = weights.values.ndim == 2
    scale = weights.scale_along(0 if transposed else 1) if is_matrix else _only(weights.scale)
    if scale is None:
        raise NotOffloadable("its weights have scales along the dimension that is summed over")
    values = weights_of(weights.values if transposed or not is_matrix else weights.values.T)
    values = values.reshape(-1, values.shape[-1])
    made = of.scaled(group, how, greatest_sum(values), scale * alpha, bias, beta, rows=_rows(of, group))
    if turned:
        data = _transposed(of, group, (data, how, {}))[0]
    return Product(
        group.name, (data,), group.output, (how,), group.how, values, made.weight_scale, made.bias, group.relu,
        nodes=group.numbers, in_float=made.in_float, rest=made.rest,
    )  # fmt: skip


def _only(scale: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """The scale of weights that are a column, if there is but one."""
    return scale if scale.size == 1 else None


def _rows(of: Operands, group: NodeGroup) -> int:
    shape = of.shape(group.output)
    return shape[0] if shape else 1


def _transposed(of: Operands, group: NodeGroup, operand: Operand) -> Operand:
    """A matrix transposed, for which there is a layer then if it is no constant."""
    tensor, how, held = operand
    name = f"{tensor}@transposed"
    of.note_type(name, how.dtype, of.shape(tensor)[::-1])
    if held:
        return name, how, {name: held[tensor].T}
    if name not in of.found.layers:
        of.found.layers[name] = Transpose(f"{group.name}.transposed", (tensor,), name, (how,), how, (1, 0))
    return name, how, {}


def _tensor_product(
    of: Operands, group: NodeGroup, turned: tuple[bool, bool] = (False, False), bias: str = "", alpha: float = 1.0,
    beta: float = 1.0,
) -> Layer:  # fmt: skip
    """alpha · first · second + beta · bias; ``turned`` says which of both are transposed before."""
    first, second = (
        _transposed(of, group, operand) if turns else operand
        for operand, turns in zip(map(of.operand_or_constant, group.core.input[:2]), turned, strict=True)
    )
    (a, of_a, held_a), (b, of_b, held_b) = first, second
    if held_a and held_b:
        raise NotOffloadable("both of its operands are constants")
    shape = of.shape(b)
    columns, depth = (shape[-1] if len(shape) > 1 else 1), shape[-2:][0]
    made = of.scaled(
        group, of_a, 255 * 255 * depth, np.full(columns, of_b.scale * alpha), bias, beta, rows=_rows(of, group)
    )
    gain = made.weight_scale / of_b.scale
    return TensorProduct(
        group.name, (a, b), group.output, (of_a, of_b), group.how, group.relu, gain, made.bias,
        nodes=group.numbers, held={**held_a, **held_b}, in_float=made.in_float, rest=made.rest,
    )  # fmt: skip


PRODUCTS: Mapping[str, Callable[[Operands, NodeGroup], Layer]] = {"Gemm": _gemm, "MatMul": _matmul}
