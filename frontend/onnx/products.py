"""Matrix products as layers: with weights, and of two tensors."""

from collections.abc import Callable, Mapping

import numpy as np

from lathe.frontend.onnx.groups import NodeGroup, Operands, weights_of
from lathe.frontend.onnx.layers import SUMS, FloatSums, Layer, Product, Quantisation, TensorProduct, Transpose
from lathe.frontend.onnx.reading import attributes_of
from lathe.frontend.onnx.unfit import Unfit


def _gemm(of: Operands, group: NodeGroup) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    alpha, beta = (float(attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    bias = node.input[2] if len(node.input) > 2 and beta else ""
    if not alpha:
        raise Unfit("its product counts nothing")
    return _product(of, group, bool(attributes.get("transA", 0)), bool(attributes.get("transB", 0)), bias, alpha, beta)


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
    if weights is None or weights.values.ndim != 2:
        raise Unfit("its second operand is no constant matrix of 8 bits")
    scale = weights.scale_along(0 if transposed else 1)
    if scale is None:
        raise Unfit("its weights have scales along the dimension that is summed over")
    values = weights_of(weights.values if transposed else weights.values.T)
    made = of.scaled(group, how, values, scale * alpha, bias, beta, rows=of.shape(group.output)[0])
    if turned:
        data = _transposed(of, data, how)
    return Product(
        group.name, (data,), group.output, (how,), group.how, values, made.weight_scale, made.bias, group.relu,
        nodes=group.numbers, in_float=made.in_float, rest=made.rest,
    )  # fmt: skip


def _transposed(of: Operands, tensor: str, how: Quantisation) -> str:
    """A matrix transposed, for which there is a layer then."""
    name = f"{tensor}@transposed"
    if name not in of.found.layers:
        of.note_type(name, how.dtype, of.shape(tensor)[::-1])
        of.found.layers[name] = Transpose(name, (tensor,), name, (how,), how, (1, 0))
    return name


def _tensor_product(of: Operands, group: NodeGroup) -> Layer:
    (a, of_a, held_a), (b, of_b, held_b) = (of.operand_or_constant(name) for name in group.core.input)
    if held_a and held_b:
        raise Unfit("both of its operands are constants")
    if min(len(of.shape(a)), len(of.shape(b))) < 2:
        raise Unfit("one of its operands is no matrix")
    gain, offset = (np.ones(1), np.zeros(1)) if group.after is None else (group.after.gain, group.after.offset)
    if gain.size > 1 or offset.size > 1 or (offset.any() and group.how != SUMS):
        raise Unfit("what is added to its product is not one number for each filter")
    in_float = None
    if group.how == SUMS:
        in_float = FloatSums((of_a.scale * of_b.scale * gain.item(),), (offset.item(),), 0)
    return TensorProduct(
        group.name, (a, b), group.output, (of_a, of_b), group.how, group.relu, gain.item(), nodes=group.numbers,
        held={**held_a, **held_b}, in_float=in_float,
    )  # fmt: skip


PRODUCTS: Mapping[str, Callable[[Operands, NodeGroup], Layer]] = {"Gemm": _gemm, "MatMul": _matmul}
