"""Layers of quantised networks: what is computed of tensors of 8 bits, in whole numbers and scales.

A tensor of 8 bits holds ``q`` for the number ``scale · (q - zero_point)``. Images lie as in ONNX, (N, C, H, W).
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pair = tuple[int, int]


@dataclass(frozen=True)
class Quantisation:
    """How a tensor of 8 bits is read; one scale for all of it."""

    scale: float
    zero_point: int
    dtype: str

    @property
    def own_zero(self) -> int:
        """The zero point of the same values as int8: of uint8, 128 is taken from each."""
        return self.zero_point - (128 if self.dtype == "uint8" else 0)


@dataclass(frozen=True, eq=False)
class Layer:
    """One output tensor computed of some inputs, all of 8 bits. ``nodes``: the numbers of the nodes it stands for."""

    name: str
    inputs: tuple[str, ...]
    output: str
    of_inputs: tuple[Quantisation, ...]
    of_output: Quantisation
    nodes: tuple[int, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, eq=False)
class Conv(Layer):
    """Sums of products with weights (M, C / groups, KH, KW), without a zero point, and biases in their units."""

    weights: NDArray[np.int8]
    weight_scale: NDArray[np.float64]
    bias: NDArray[np.int64]
    strides: Pair
    pads: tuple[int, int, int, int]  # top, left, bottom, right
    dilations: Pair
    groups: int
    relu: bool = False


@dataclass(frozen=True, eq=False)
class Product(Layer):
    """A matrix product with weights (N, K): (…, K) becomes (…, N)."""

    weights: NDArray[np.int8]
    weight_scale: NDArray[np.float64]
    bias: NDArray[np.int64]
    relu: bool = False


@dataclass(frozen=True, eq=False)
class Sum(Layer):
    """The sum of two tensors of one shape."""

    relu: bool = False


@dataclass(frozen=True, eq=False)
class Times(Layer):
    """The product of two tensors, element by element; the second may be of extent 1 along dimensions of the first."""

    relu: bool = False


@dataclass(frozen=True, eq=False)
class MaxPool(Layer):
    """The greatest value of each window."""

    kernel: Pair
    strides: Pair
    pads: tuple[int, int, int, int]


@dataclass(frozen=True, eq=False)
class AveragePool(Layer):
    """The average of each window of an image, in whose border are zeros."""

    kernel: Pair
    strides: Pair
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    relu: bool = False


@dataclass(frozen=True, eq=False)
class Lookup(Layer):
    """Any function of one tensor, element by element: its values, from that of the least on, 256 in all.

    ``table`` is (256,), or (256, C) with a function of its own for each index of dimension ``axis``.
    """

    table: NDArray[Any]
    axis: int = 1


@dataclass(frozen=True, eq=False)
class Reshape(Layer):
    """The same values in row-major order under another shape."""


@dataclass(frozen=True, eq=False)
class Transpose(Layer):
    """Dimensions in another order: dimension ``n`` of the result is ``order[n]`` of the data."""

    order: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Slice(Layer):
    """From ``starts`` on, every ``steps``-th value along each dimension, as many as the result has."""

    starts: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Pad(Layer):
    """Zeros (as the data's zero point) before the first value of each dimension and behind the last."""

    before: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Resize(Layer):
    """Each value as often as ``factors`` say along each dimension."""

    factors: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Concat(Layer):
    """Tensors behind each other along a dimension."""

    axis: int


@dataclass(frozen=True, eq=False)
class ConvTranspose(Layer):
    """Each value spread over a window of weights (C, M, KH, KW), windows ``strides`` apart."""

    weights: NDArray[np.int8]
    weight_scale: NDArray[np.float64]
    bias: NDArray[np.int64]
    strides: Pair
    pads: tuple[int, int, int, int]  # of what is computed, left out: top, left, bottom, right
    relu: bool = False


@dataclass(frozen=True, eq=False)
class TensorProduct(Layer):
    """Matrix products of two tensors, (..., I, K) and (..., K, J), both with a zero point of 0 as int8."""

    relu: bool = False
