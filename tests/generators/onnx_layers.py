"""Random layers as ONNX's QLinearConv and QLinearMatMul quantise them: on a machine, and by ONNX's definition."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from random_programs import Choice

import lathe as lt

Floats = NDArray[np.float64]
SIGNED = {"int8": 0, "uint8": 128}
"""The offset subtracted from values of a dtype, so that the machine's signed inputs can hold them."""


@dataclass(frozen=True)
class QuantisedLayer:
    """A layer with its inputs on a machine, and its exact sums and scales by ONNX's definition.

    ``sums``: int64 (…, channels), products of dequantised data and weights, plus biases; ``scale`` (channels,): their
    unit, relative to that of the output; ``zero_point``, ``dtype`` and ``relu`` of the output.
    """

    output: lt.Tensor
    tensors: list[lt.Tensor]
    inputs: dict[str, NDArray[Any]]
    sums: NDArray[np.int64]
    scale: Floats
    zero_point: int
    dtype: str
    relu: bool

    def expected(self) -> NDArray[Any]:
        """The definition in float64: sums times scale to the nearest integer, halves to even, saturated."""
        limits = np.iinfo(self.dtype)
        low = self.zero_point if self.relu else limits.min
        rounded = np.rint(self.sums * self.scale) + self.zero_point
        return np.clip(rounded, low, limits.max).astype(self.dtype)

    def by_factors(self) -> NDArray[Any]:
        """The result of docs/quantization.md: exact sums times factors, a mantissa over a power of two, rounded in
        integers.
        """
        words = self.inputs["P"][:, 1].astype(np.int64)
        mantissa, shift = words >> 6, words & 63
        product = self.sums * mantissa
        below = product >> shift
        rest, half = product - (below << shift), (np.int64(1) << shift) >> 1
        up = (rest > half) | ((rest == half) & (shift > 0) & (below % 2 == 1))
        limits = np.iinfo(self.dtype)
        low = self.zero_point if self.relu else limits.min
        return np.clip(below + up + self.zero_point, low, limits.max).astype(self.dtype)

    def next_to_a_half(self) -> NDArray[np.bool_]:
        """Whether a product is so close to a half that a factor of 25 bits may round it to the other neighbour.

        The mantissa has an error of at most half of one in 2**24, so the product one of at most 2**-25 of itself.
        """
        value = self.sums * self.scale
        distance = np.abs(np.abs(value - np.floor(value)) - 0.5)
        near: NDArray[np.bool_] = distance <= np.abs(value) * 2.0**-25
        return near


def quantised_layer(choice: Choice) -> QuantisedLayer:
    """A convolution or a matmul with random shapes, scales, zero points and signedness.

    With these scales most outputs do not saturate; some scales are powers of two, for which products can be exact
    halves, which are rounded to even.
    """
    generator = np.random.default_rng(choice.number(0, 1 << 30))
    given, made = choice.pick([*SIGNED]), choice.pick([*SIGNED])
    limits, wanted = np.iinfo(given), np.iinfo(made)
    data_zero = choice.pick([0, limits.min, limits.max, choice.number(limits.min, limits.max)])
    zero_point = choice.pick([wanted.min, wanted.max, 0, choice.number(wanted.min, wanted.max)])
    relu = bool(choice.number(0, 1))
    convolves = choice.number(0, 2) > 0
    if convolves:
        channels, filters = choice.number(1, 20), choice.number(1, 20)
        kernel, stride, padding = choice.number(1, 3), choice.number(1, 2), choice.number(0, 1)
        size = choice.number(max(kernel, 2), 7)
        shape: tuple[int, ...] = (1, size, size, channels)
        weight_shape: tuple[int, ...] = (filters, kernel, kernel, channels)
    else:
        rows, depth, filters = choice.number(1, 10), choice.number(1, 40), choice.number(1, 30)
        shape, weight_shape = (rows, depth), (filters, depth)
    data = generator.integers(limits.min, limits.max, shape, np.int64, endpoint=True)
    weight = generator.integers(-127, 127, weight_shape, np.int64, endpoint=True)
    bias = generator.integers(-9999, 9999, filters, np.int64, endpoint=True) * choice.number(0, 1)
    centred = data - data_zero
    if convolves:
        sums = _convolved(np.pad(centred, ((0, 0), (padding, padding), (padding, padding), (0, 0))), weight, stride)
    else:
        sums = centred @ weight.T
    sums = sums + bias
    spread = max(1.0, float(sums.std()))
    scale = np.exp(generator.uniform(-1, 1, filters)) * choice.number(20, 90) / spread
    if choice.number(0, 2) == 0:
        scale = 2.0 ** np.floor(np.log2(scale))
    if choice.number(0, 1):
        scale = np.broadcast_to(scale[:1], (filters,))

    # The machine's bias: ONNX's bias, minus the zero point of the machine's data times the weights.
    shifted_zero = data_zero - SIGNED[given]
    own_bias = bias - shifted_zero * weight.reshape(filters, -1).sum(axis=1)
    X = lt.placeholder(shape, "int8", name="X")
    W = lt.placeholder(weight_shape, "int8", name="W")
    P = lt.placeholder((filters, 2), "int32", name="P")
    if convolves:
        product = lt.conv2d(X, W, stride=stride, padding=padding, pad_value=shifted_zero, name="product")
    else:
        product = lt.dense(X, W, name="product")
    output = lt.requantise(product, parameters=P, zero_point=zero_point, dtype=made, relu=relu, name="Y")
    inputs = {
        "X": (data - SIGNED[given]).astype(np.int8),
        "W": weight.astype(np.int8),
        "P": lt.rescale_parameters(scale, own_bias),
    }
    return QuantisedLayer(output, [X, W, P, output], inputs, sums, np.asarray(scale), zero_point, made, relu)


def _convolved(data: NDArray[np.int64], weight: NDArray[np.int64], stride: int) -> NDArray[np.int64]:
    """Images (N, H, W, C) with kernels (O, K, K, C), without padding: (N, HO, WO, O)."""
    kernel = weight.shape[1]
    height, width = ((extent - kernel) // stride + 1 for extent in data.shape[1:3])
    sums = np.zeros((len(data), height, width, len(weight)), np.int64)
    for y in range(kernel):
        for x in range(kernel):
            rows = slice(y, y + (height - 1) * stride + 1, stride)
            columns = slice(x, x + (width - 1) * stride + 1, stride)
            sums += data[:, rows, columns] @ weight[:, y, x].T
    return sums
