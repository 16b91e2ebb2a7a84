"""ConvInteger and MatMulInteger as layers: sums of 32 bits of data less their zero point, and of weights."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.onnx.convolutions import as_images, check_groups
from lathe.frontend.onnx.qdq_groups import Operands, weights_of
from lathe.frontend.onnx.qdq_values import BYTES
from lathe.frontend.onnx.quant_graph import SUMS, Conv, Layer, Product, Quantisation, TensorProduct
from lathe.frontend.onnx.reading import attributes_of
from lathe.frontend.onnx.unsupported import NotOffloadable
from lathe.frontend.onnx.windows import windows_of


def _conv(of: Operands, number: int, node: Any) -> Layer:
    attributes = attributes_of(node)
    inputs, how = _data(of, node)
    values = _weights(of, node, (-1, *(1,) * (len(of.shape(node.input[1])) - 1)))
    groups, filters = attributes.get("group", 1), len(values)
    check_groups(groups, values.shape[1:2], of.shape(node.input[0]), filters)
    windows = windows_of(attributes, of.shape(node.input[0]), values.shape[2:])
    if groups > 1 and len(inputs) > 1:
        raise NotOffloadable("its channels are in groups, and their zero point is computed")
    return Conv(
        node.name or node.output[0], inputs, node.output[0], (how,), SUMS, as_images(values), np.ones(filters),
        np.zeros(filters, np.int64), windows.strides, windows.pads, windows.dilations, groups, nodes=(number,),
    )  # fmt: skip


def _product(of: Operands, number: int, node: Any) -> Layer:
    if of.model.constant(node.input[1]) is None or len(of.shape(node.input[1])) > 2:
        return _tensor_product(of, number, node)
    inputs, how = _data(of, node)
    values = _weights(of, node, (1, -1))
    weights = weights_of(values.T.reshape(-1, len(values)))
    return Product(
        node.name or node.output[0], inputs, node.output[0], (how,), SUMS, weights, np.ones(len(weights)),
        np.zeros(len(weights), np.int64), nodes=(number,),
    )  # fmt: skip


def _tensor_product(of: Operands, number: int, node: Any) -> Layer:
    """Of two tensors, either perhaps a constant."""
    held = {name: values for name in node.input[:2] if (values := of.model.constant(name)) is not None}
    if len(held) == 2:
        raise NotOffloadable("both of its operands are constants")
    read = []
    for place, name in enumerate(node.input[:2]):
        known = of.model.types.get(name)
        if known is None or known.dtype not in BYTES:
            raise NotOffloadable(f"its operand {name!r} is no tensor of 8 bits")
        zero = node.input[2 + place] if len(node.input) > 2 + place else ""
        point = np.zeros(1, np.int64) if not zero else of.model.constant(zero)
        if point is None:
            raise NotOffloadable(
                "both of its operands are computed, and so is a zero point: less that, they have 9 bits"
            )
        if point.size != 1:
            raise NotOffloadable("both of its operands are computed, and one has several zero points")
        read.append(Quantisation(1.0, int(point.reshape(-1)[0]), known.dtype))
    return TensorProduct(
        node.name or node.output[0], tuple(node.input[:2]), node.output[0], tuple(read), SUMS, nodes=(number,),
        held=held,
    )  # fmt: skip


def _data(of: Operands, node: Any) -> tuple[tuple[str, ...], Quantisation]:
    """The data, and behind them their zero point, if it is computed; otherwise that is in how they are read."""
    data = node.input[0]
    known = of.model.types.get(data)
    if known is None or known.dtype not in BYTES or data in of.model.initializers:
        raise NotOffloadable("its data are no tensor of 8 bits that is computed")
    zero = node.input[2] if len(node.input) > 2 else ""
    held = np.zeros(1, np.int64) if not zero else of.model.constant(zero)
    if held is not None:
        if held.size != 1:
            raise NotOffloadable("its data have several zero points")
        return (data,), Quantisation(1.0, int(held.reshape(-1)[0]), known.dtype)
    if of.shape(zero) not in ((), (1,)):
        raise NotOffloadable("its data have several zero points")
    return (data, zero), Quantisation(1.0, 0, known.dtype)


def _weights(of: Operands, node: Any, along: tuple[int, ...]) -> NDArray[np.int64]:
    """Weights less their zero point, of which there may be one for each filter: in the shape ``along``."""
    stored = of.model.constant(node.input[1])
    if stored is None:
        raise NotOffloadable("its weights are no constants")
    values = stored.astype(np.int64)
    if len(node.input) > 3 and node.input[3]:
        zero = of.model.constant(node.input[3])
        if zero is None or zero.ndim > 1:
            raise NotOffloadable("the zero points of its weights are no constants, one for all or for each filter")
        values = values - (zero.astype(np.int64).reshape(along) if zero.size > 1 else int(zero.reshape(-1)[0]))
    return values


INTEGERS: Mapping[str, Callable[[Operands, int, Any], Layer]] = {"ConvInteger": _conv, "MatMulInteger": _product}
