"""Choice of the layout of activations, NHWC (image) or row-major (plain), by their consumers."""

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


def prefers_image_layout(tensor: str, shape: Shape, layers: Iterable[Layer]) -> bool:
    """Whether a tensor is an NHWC image: the first consumer among ``layers`` that requires a layout decides.

    For a layer that takes either layout, its consumers decide. If none requires one, tensors of rank 4 are images.
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
