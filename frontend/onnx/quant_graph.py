"""Layers of quantised networks: what is computed of tensors of 8 bits, in whole numbers and scales.

A tensor of 8 bits holds ``q`` for the number ``scale · (q - zero_point)``. Images lie as in ONNX, (N, C, H, W), or
(N, C, L): then windows are those of an image of one row. Weights are whole numbers without a zero point, -255 to 255.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pair = tuple[int, int]
Sides = tuple[int, int, int, int]
"""Top, left, bottom, right."""


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


SUMS = Quantisation(1.0, 0, "int32")
"""Of results that are sums of products themselves."""


@dataclass(frozen=True)
class FloatSums:
    """Which floating-point numbers sums stand for: ``scale · sum + bias``, rounded once.

    Either is one number, or one for each index of dimension ``axis``; a bias may be one for each sum, in their order.
    """

    scale: tuple[float, ...]
    bias: tuple[float, ...]
    axis: int

    def of(self, sums: NDArray[np.int32], dtype: str) -> NDArray[Any]:
        """The numbers, of the shape of the sums."""
        along = [-1 if n == self.axis else 1 for n in range(sums.ndim)]
        shapes = {1: (), sums.shape[self.axis]: along, sums.size: sums.shape}
        scale, bias = (np.array(each).reshape(shapes[len(each)]) for each in (self.scale, self.bias))
        with np.errstate(over="ignore"):  # beyond float32 is infinite, as it is in float32
            numbers: NDArray[Any] = (sums * scale + bias).astype(dtype)
        return numbers


@dataclass(frozen=True, eq=False)
class Layer:
    """One output tensor computed of some inputs, all of 8 bits. ``nodes``: the numbers of the nodes it stands for.

    ``held`` are the values of inputs that are constants, by name. ``in_float``: what a result of int32 stands for, if
    the model has it in floating point. ``rest``: of a product with weights what its biases have beside whole numbers,
    for each filter, None where that is nothing, or too little to matter.
    """

    name: str
    inputs: tuple[str, ...]
    output: str
    of_inputs: tuple[Quantisation, ...]
    of_output: Quantisation
    nodes: tuple[int, ...] = field(default=(), kw_only=True)
    held: Mapping[str, NDArray[Any]] = field(default_factory=dict, kw_only=True)
    in_float: FloatSums | None = field(default=None, kw_only=True)
    rest: NDArray[np.float64] | None = field(default=None, kw_only=True)

    @property
    def read(self) -> tuple[str, ...]:
        """The inputs that are no constants."""
        return tuple(name for name in self.inputs if name not in self.held)


@dataclass(frozen=True, eq=False)
class Conv(Layer):
    """Sums of products with weights (M, C / groups, KH, KW), and biases in their units.

    A result of int32 are the sums themselves. A second input is the zero point of the data, if that is computed.
    """

    weights: NDArray[np.int16]
    weight_scale: NDArray[np.float64]
    bias: NDArray[np.int64]
    strides: Pair
    pads: Sides
    dilations: Pair
    groups: int
    relu: bool = False


@dataclass(frozen=True, eq=False)
class Product(Layer):
    """A matrix product with weights (N, K): (…, K) becomes (…, N).

    A result of int32 are the sums themselves. A second input is the zero point of the data, if that is computed.
    Biases, and ``rest``, are (N,), or of (M, K) as data (M, N) where rows have biases of their own.
    """

    weights: NDArray[np.int16]
    weight_scale: NDArray[np.float64]
    bias: NDArray[np.int64]
    relu: bool = False


@dataclass(frozen=True, eq=False)
class Sum(Layer):
    """The sum of two tensors, or their difference, repeated along dimensions that one of them has not."""

    minus: bool = False
    relu: bool = False


@dataclass(frozen=True, eq=False)
class Times(Layer):
    """The product of two tensors, element by element, repeated along dimensions that one of them has not."""

    relu: bool = False


@dataclass(frozen=True, eq=False)
class Extreme(Layer):
    """The greatest or the least value of some tensors, all read as the result is, element by element."""

    greatest: bool


@dataclass(frozen=True, eq=False)
class MaxPool(Layer):
    """The greatest value of each window."""

    kernel: Pair
    strides: Pair
    pads: Sides
    dilations: Pair = (1, 1)


@dataclass(frozen=True, eq=False)
class AveragePool(Layer):
    """The average of each window of an image, in whose border are zeros.

    ``counted``: how many values each window has by which its sum is divided, (HO, WO); None: all of them all taps.
    """

    kernel: Pair
    strides: Pair
    pads: Sides = (0, 0, 0, 0)
    relu: bool = False
    counted: NDArray[np.int64] | None = None
    dilations: Pair = (1, 1)


@dataclass(frozen=True, eq=False)
class Mean(Layer):
    """The average along some dimensions, which are then of extent 1 or, without ``kept``, not there."""

    axes: tuple[int, ...]
    kept: bool
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
    """From ``starts`` on, every ``steps``-th value along each dimension, as many as the result has.

    Steps may be negative: then values lie backwards.
    """

    starts: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Pad(Layer):
    """Values before the first value of each dimension, ``before``, and behind the last; fewer than 0 are left out.

    They are ``filling``, of int8, or if that is None the tensor's own: ``runs`` has for each dimension the runs of
    which the result's consists there.
    """

    before: tuple[int, ...]
    filling: int | None
    runs: "tuple[tuple[Run, ...], ...]" = ()


@dataclass(frozen=True)
class Run:
    """So many values of a dimension, from one on and ``step`` apart: 0 repeats one, -1 goes backwards."""

    start: int
    step: int
    count: int


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
    """Each value spread over a window, windows ``strides`` apart: as a convolution with zeros between the pixels.

    Weights are those of the convolution, (M, C / groups, KH, KW), turned round. ``before``: the rows and columns of
    what is computed that are left out before the first of the result.
    """

    weights: NDArray[np.int16]
    weight_scale: NDArray[np.float64]
    bias: NDArray[np.int64]
    strides: Pair
    before: Pair
    dilations: Pair
    groups: int
    relu: bool = False


@dataclass(frozen=True, eq=False)
class TensorProduct(Layer):
    """Matrix products of two tensors, (..., I, K) and (..., K, J), repeated along other dimensions as sums are.

    The first may be (K,), and then the result has no I; the second (K,), and then it has no J. A result of int32 are
    the sums themselves; one of 8 bits is theirs times ``gain`` (J,), with biases (J,), or (I, J), in units of the sums;
    one number stands for all columns.
    """

    relu: bool = False
    gain: NDArray[np.float64] = field(default_factory=lambda: np.ones(1))
    bias: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
