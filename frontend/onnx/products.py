"""Matrix products as layers: with weights, and of two tensors."""

from collections.abc import Callable, Mapping

import numpy as np

from lathe.frontend.onnx.groups import Group, Operands, weights_of
from lathe.frontend.onnx.layers import Layer, Product, TensorProduct
from lathe.frontend.onnx.reading import attributes_of
from lathe.frontend.onnx.unfit import Unfit


def _gemm(of: Operands, group: Group) -> Layer:
    node, attributes = group.core, attributes_of(group.core)
    if attributes.get("transA", 0) or attributes.get("alpha", 1.0) != 1.0 or attributes.get("beta", 1.0) != 1.0:
        raise Unfit("it scales or transposes its data")
    return _product(of, group, bool(attributes.get("transB", 0)), node.input[2] if len(node.input) > 2 else "")


def _matmul(of: Operands, group: Group) -> Layer:
    if of.values.bytes_behind(group.core.input[1]) is not None:
        return _tensor_product(of, group)
    return _product(of, group, transposed=False, bias="")


def _product(of: Operands, group: Group, transposed: bool, bias: str) -> Layer:
    node = group.core
    data, how = of.operand(node.input[0])
    weights = of.values.constant_behind(node.input[1])
    if weights is None or weights.values.ndim != 2:
        raise Unfit("its second operand is no constant matrix of 8 bits")
    scale = weights.scale_along(0 if transposed else 1)
    if scale is None:
        raise Unfit("its weights have scales along the dimension that is summed over")
    values = weights_of(weights.values if transposed else weights.values.T)
    unit = how.scale * scale
    biases = of.bias(bias, unit) if bias else np.zeros(len(scale), np.int64)
    return Product(
        group.name, (data,), group.output, (how,), group.how, values, scale, biases, group.relu, nodes=group.numbers
    )


def _tensor_product(of: Operands, group: Group) -> Layer:
    (a, of_a), (b, of_b) = (of.operand(name) for name in group.core.input)
    if of_a.own_zero or of_b.own_zero:
        raise Unfit("both of its operands are computed, and have zero points")
    if of.shape(a)[:-2] != of.shape(b)[:-2] or len(of.shape(a)) < 2:
        raise Unfit("its operands are repeated")
    return TensorProduct(group.name, (a, b), group.output, (of_a, of_b), group.how, group.relu, nodes=group.numbers)


PRODUCTS: Mapping[str, Callable[[Operands, Group], Layer]] = {"Gemm": _gemm, "MatMul": _matmul}
