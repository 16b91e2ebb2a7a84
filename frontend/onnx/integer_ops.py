"""Match ConvInteger and MatMulInteger, whose results are int32 sums."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.convolutions import as_images, check_groups
from lathe.frontend.onnx.qdq_groups import MatchContext, int16_weights
from lathe.frontend.onnx.qdq_values import BYTES
from lathe.frontend.onnx.quant_graph import SUMS, Conv, Layer, Product, Quantisation, TensorProduct
from lathe.frontend.onnx.reading import attributes_of
from lathe.frontend.onnx.unsupported import NotOffloadable
from lathe.frontend.onnx.windows import windows_of


def _conv(ctx: MatchContext, number: int, node: Any) -> Layer:
    attributes = attributes_of(node)
    inputs, quant = _data(ctx, node)
    values = _weights(ctx, node, (-1, *(1,) * (len(ctx.shape(node.input[1])) - 1)))
    groups, filters = attributes.get("group", 1), len(values)
    check_groups(groups, values.shape[1:2], ctx.shape(node.input[0]), filters)
    windows = windows_of(attributes, ctx.shape(node.input[0]), values.shape[2:])
    if groups > 1 and len(inputs) > 1:
        raise NotOffloadable("grouped convolution with a computed zero point is not supported")
    return Conv(
        node.name or node.output[0], inputs, node.output[0], (quant,), SUMS, as_images(values), np.ones(filters),
        np.zeros(filters, np.int64), windows.strides, windows.pads, windows.dilations, groups, nodes=(number,),
    )  # fmt: skip


def _product(ctx: MatchContext, number: int, node: Any) -> Layer:
    if ctx.model.constant(node.input[1]) is None or len(ctx.shape(node.input[1])) > 2:
        return _tensor_product(ctx, number, node)
    inputs, quant = _data(ctx, node)
    values = _weights(ctx, node, (1, -1))
    weights = int16_weights(values.T.reshape(-1, len(values)))
    return Product(
        node.name or node.output[0], inputs, node.output[0], (quant,), SUMS, weights, np.ones(len(weights)),
        np.zeros(len(weights), np.int64), nodes=(number,),
    )  # fmt: skip


def _tensor_product(ctx: MatchContext, number: int, node: Any) -> Layer:
    """A matmul of two tensors, of which one may be constant."""
    constants = {name: values for name in node.input[:2] if (values := ctx.model.constant(name)) is not None}
    if len(constants) == 2:
        raise NotOffloadable("both of its operands are constants")
    quants = []
    for index, name in enumerate(node.input[:2]):
        known = ctx.model.types.get(name)
        if known is None or known.dtype not in BYTES:
            raise NotOffloadable(f"its operand {name!r} is not an 8-bit tensor")
        zero = node.input[2 + index] if len(node.input) > 2 + index else ""
        point = np.zeros(1, np.int64) if not zero else ctx.model.constant(zero)
        if point is None:
            raise NotOffloadable("both of its operands and a zero point are computed: their difference has 9 bits")
        if point.size != 1:
            raise NotOffloadable("both of its operands are computed, and one has several zero points")
        quants.append(Quantisation(1.0, int(point.reshape(-1)[0]), known.dtype))
    return TensorProduct(
        node.name or node.output[0], tuple(node.input[:2]), node.output[0], tuple(quants), SUMS, nodes=(number,),
        constants=constants,
    )  # fmt: skip


def _data(ctx: MatchContext, node: Any) -> tuple[tuple[str, ...], Quantisation]:
    """The data tensor and its Quantisation; a computed zero point is a second tensor after the data."""
    data = node.input[0]
    known = ctx.model.types.get(data)
    if known is None or known.dtype not in BYTES or data in ctx.model.initializers:
        raise NotOffloadable("its data is not a computed 8-bit tensor")
    zero = node.input[2] if len(node.input) > 2 else ""
    constant = np.zeros(1, np.int64) if not zero else ctx.model.constant(zero)
    if constant is not None:
        if constant.size != 1:
            raise NotOffloadable("its data has several zero points")
        return (data,), Quantisation(1.0, int(constant.reshape(-1)[0]), known.dtype)
    if ctx.shape(zero) not in ((), (1,)):
        raise NotOffloadable("its data has several zero points")
    return (data, zero), Quantisation(1.0, 0, known.dtype)


def _weights(ctx: MatchContext, node: Any, along: tuple[int, ...]) -> NDArray[np.int64]:
    """Weights minus their zero point; zero points of output channels are reshaped to ``along`` to broadcast."""
    stored = ctx.model.constant(node.input[1])
    if stored is None:
        raise NotOffloadable("its weights are not constants")
    values = stored.astype(np.int64)
    if len(node.input) > 3 and node.input[3]:
        zero = ctx.model.constant(node.input[3])
        if zero is None or zero.ndim > 1:
            raise NotOffloadable("the zero points of its weights are not constants, one for all or for each channel")
        values = values - (zero.astype(np.int64).reshape(along) if zero.size > 1 else int(zero.reshape(-1)[0]))
    return values


INTEGER_OPS: Mapping[str, Callable[[MatchContext, int, Any], Layer]] = {"ConvInteger": _conv, "MatMulInteger": _product}
