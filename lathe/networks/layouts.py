"""Which tensors programs have as images, with channels last: those that are read so."""

from collections.abc import Iterable

from lathe.frontend.onnx.quant_graph import (
    AveragePool,
    Concat,
    Conv,
    ConvTranspose,
    Extreme,
    Layer,
    Lookup,
    MaxPool,
    Pad,
    Product,
    Resize,
    Slice,
    Sum,
    TensorProduct,
    Times,
)
from lathe.networks.lowered_values import IMAGE_RANKS, Shape

_IMAGES = (AveragePool, Conv, ConvTranspose, MaxPool, Resize)
_PLAIN = (Product, TensorProduct)
_EITHER = (Concat, Extreme, Lookup, Pad, Slice, Sum, Times)


def read_as_image(tensor: str, shape: Shape, layers: Iterable[Layer]) -> bool:
    """Whether the first of the layers, in their order, that must have a tensor as an image or plain has it as an image.

    Layers that take it as it lies want what their readers do. Where nobody wants anything, four dimensions are one.
    """
    if len(shape) not in IMAGE_RANKS:
        return False
    same = {tensor}
    for layer in layers:
        if not same & {*layer.inputs}:
            continue
        if isinstance(layer, _IMAGES):
            return True
        if isinstance(layer, _PLAIN):
            return False
        if isinstance(layer, Lookup) and layer.table.ndim > 1:
            return layer.axis == 1
        if isinstance(layer, _EITHER):
            same.add(layer.output)
    return len(shape) == 4
