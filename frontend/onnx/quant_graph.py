"""The quantised graph IR: layers that compute on 8-bit tensors in integers and scales.

An 8-bit tensor holds ``q`` for the number ``scale · (q - zero_point)``. Images are (N, C, H, W), as in ONNX, or
(N, C, L), an image of one row. Weights have their zero point subtracted, and so are -255 to 255.
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
    """Per-tensor quantisation of an 8-bit tensor."""

    scale: float
    zero_point: int
    dtype: str

    @property
    def int8_zero_point(self) -> int:
        """The zero point on the machine, which stores uint8 values minus 128 as int8."""
        return self.zero_point - (128 if self.dtype == "uint8" else 0)


SUMS = Quantisation(1.0, 0, "int32")
"""The quantisation of results that are the int32 sums themselves."""


@dataclass(frozen=True)
class FloatSums:
    """Conversion of int32 sums to floats: ``scale · sum + bias``, rounded once.

    Both have one number, or one for each index of dimension ``axis``; the bias may also have one for each sum.
    """

    scale: tuple[float, ...]
    bias: tuple[float, ...]
    axis: int

    def of(self, sums: NDArray[np.int32], dtype: str) -> NDArray[Any]:
        """The floats of some sums, in their shape."""
        along = [-1 if n == self.axis else 1 for n in range(sums.ndim)]
        shapes = {1: (), sums.shape[self.axis]: along, sums.size: sums.shape}
        scale, bias = (np.array(each).reshape(shapes[len(each)]) for each in (self.scale, self.bias))
        with np.errstate(over="ignore"):  # overflow gives infinity, as float32 does
            numbers: NDArray[Any] = (sums * scale + bias).astype(dtype)
        return numbers


@dataclass(frozen=True, eq=False)
class Layer:
    """An operation on 8-bit tensors with one output. ``nodes``: the numbers of the ONNX nodes that it replaces.

    ``constants``: values of constant inputs, by name. ``float_sums``: the floats that an int32 result stands for, if
    the model has it in float. ``bias_residual``: the fractional part of a convolution's or matmul's bias in units of
    the sums, for each output channel; None if it is zero or negligible.
    """

    name: str
    inputs: tuple[str, ...]
    output: str
    input_quants: tuple[Quantisation, ...]
    output_quant: Quantisation
    nodes: tuple[int, ...] = field(default=(), kw_only=True)
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict, kw_only=True)
    float_sums: FloatSums | None = field(default=None, kw_only=True)
    bias_residual: NDArray[np.float64] | None = field(default=None, kw_only=True)

    @property
    def computed_inputs(self) -> tuple[str, ...]:
        """The inputs that are not constant."""
        return tuple(name for name in self.inputs if name not in self.constants)


@dataclass(frozen=True, eq=False)
class Conv(Layer):
    """A convolution with weights (M, C / groups, KH, KW), and a bias (M,) in units of the sums.

    An int32 result is the sums themselves. A second input is the zero point of the data, if that is computed.
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
    """A matmul with weights (N, K): (…, K) becomes (…, N).

    An int32 result is the sums themselves. A second input is the zero point of the data, if that is computed.
    ``bias`` and ``bias_residual`` are (N,), or (M, N) for data (M, K) if the rows have biases of their own.
    """

    weights: NDArray[np.int16]
    weight_scale: NDArray[np.float64]
    bias: NDArray[np.int64]
    relu: bool = False


@dataclass(frozen=True, eq=False)
class Sum(Layer):
    """Element-wise addition, or subtraction with ``minus``, of two tensors, with broadcasting."""

    minus: bool = False
    relu: bool = False


@dataclass(frozen=True, eq=False)
class Times(Layer):
    """Element-wise multiplication of two tensors, with broadcasting."""

    relu: bool = False


@dataclass(frozen=True, eq=False)
class Extreme(Layer):
    """Element-wise maximum or minimum of tensors that all have the quantisation of the result."""

    greatest: bool


@dataclass(frozen=True, eq=False)
class MaxPool(Layer):
    """Maximum of each window."""

    kernel: Pair
    strides: Pair
    pads: Sides
    dilations: Pair = (1, 1)


@dataclass(frozen=True, eq=False)
class AveragePool(Layer):
    """Average of each window of an image padded with zeros.

    ``divisors``: the number of values by which each window's sum is divided, (HO, WO); None: the kernel size for all.
    """

    kernel: Pair
    strides: Pair
    pads: Sides = (0, 0, 0, 0)
    relu: bool = False
    divisors: NDArray[np.int64] | None = None
    dilations: Pair = (1, 1)


@dataclass(frozen=True, eq=False)
class Mean(Layer):
    """Average along ``axes``, which the result has with extent 1 or, without ``keepdims``, does not have."""

    axes: tuple[int, ...]
    keepdims: bool
    relu: bool = False


@dataclass(frozen=True, eq=False)
class Lookup(Layer):
    """Element-wise table lookup: row ``i`` of ``table`` is the result for the ``i``-th smallest input value.

    ``table`` is (256,), or (256, C) with a function for each index of dimension ``axis``.
    """

    table: NDArray[Any]
    axis: int = 1


@dataclass(frozen=True, eq=False)
class Reshape(Layer):
    """Reshape in row-major order."""


@dataclass(frozen=True, eq=False)
class Transpose(Layer):
    """Permutation of dimensions: dimension ``n`` of the result is ``order[n]`` of the input."""

    order: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Slice(Layer):
    """A strided slice, with a start and a step (which may be negative) for each dimension."""

    starts: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Pad(Layer):
    """Padding of ``before`` values at the start of each dimension, and up to the result's shape at the end.

    Negative numbers crop. The padding value is ``filling``, an int8; if that is None (reflect, edge and wrap modes),
    ``runs`` gives the source indices of each dimension of the result.
    """

    before: tuple[int, ...]
    filling: int | None
    runs: "tuple[tuple[Run, ...], ...]" = ()


@dataclass(frozen=True)
class Run:
    """``count`` indices of a dimension: ``start``, ``start + step``, …, with a step of -1, 0 or 1."""

    start: int
    step: int
    count: int


@dataclass(frozen=True, eq=False)
class Resize(Layer):
    """Nearest-neighbour upsampling: each value is repeated ``factors[n]`` times along dimension ``n``."""

    factors: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Concat(Layer):
    """Concatenation along a dimension."""

    axis: int


@dataclass(frozen=True, eq=False)
class ConvTranspose(Layer):
    """A transposed convolution, as a convolution of the input with zeros inserted between its pixels.

    Weights are those of this convolution, (M, C / groups, KH, KW), already flipped. ``before``: rows and columns that
    are cropped at the start of the result.
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
    """A batched matmul of two tensors, (..., I, K) and (..., K, J), with broadcasting of the batch dimensions.

    The first may be (K,), then the result has no I; the second (K,), then it has no J. An int32 result is the sums
    themselves. An 8-bit result is ``gain · (sums + bias)``, with a gain (J,) and a bias (J,) or (I, J), or one number
    for all columns.
    """

    relu: bool = False
    gain: NDArray[np.float64] = field(default_factory=lambda: np.ones(1))
    bias: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
