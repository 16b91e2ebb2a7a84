"""Programs that several tests compile: operators with their placeholders, and the GEMMs that they take."""

from collections.abc import Callable
from math import prod
from typing import Any

from checking import Product

import lathe as lt
from lathe.frontend.expr.expr_base import Expr


def multiplied(rows: int, inner: int, columns: int, *, transpose_b: bool) -> tuple[lt.Tensor, list[Product]]:
    """A matmul of two inputs."""
    A = lt.placeholder((rows, inner), "int8", name="A")
    B = lt.placeholder((columns, inner) if transpose_b else (inner, columns), "int8", name="B")
    C = lt.matmul(A, B, transpose_b=transpose_b, name="C")
    return C, [Product(rows, inner, columns, either=True)]


def convolved(
    *,
    images: int = 1,
    height: int = 9,
    width: int = 8,
    channels: int = 8,
    outputs: int = 16,
    kernel: int | tuple[int, int] = 3,
    layout: str = "NHWC",
    kernel_layout: str | None = None,
    groups: int = 1,
    then: Callable[[lt.Tensor], lt.Tensor] = lambda result: result,
    **parameters: object,
) -> tuple[lt.Tensor, list[Product]]:
    """A convolution of an image and a kernel, followed by ``then``; the GEMMs are those of the convolution."""
    taps = (kernel, kernel) if isinstance(kernel, int) else kernel
    shape = (images, height, width, channels) if layout == "NHWC" else (images, channels, height, width)
    order = kernel_layout or ("OHWI" if layout == "NHWC" else "OIHW")
    extent = {"O": outputs, "H": taps[0], "W": taps[1], "I": channels // groups}
    data = lt.placeholder(shape, "int8", name="data")
    weight = lt.placeholder(tuple(extent[letter] for letter in order), "int8", name="weight")
    result = lt.conv2d(
        data, weight, layout=layout, kernel_layout=kernel_layout, groups=groups, name="conv", **parameters
    )
    pixels = result.shape[1:3] if layout == "NHWC" else result.shape[2:]
    times = pixels[0] * pixels[1] * taps[0] * taps[1] * groups
    strides, dilations, paddings = (_of_both(parameters.get(name, n)) for name, n in _DEFAULTS.items())
    along = zip((height, width), pixels, taps, strides, dilations, paddings, strict=True)
    met = groups * prod(taps_on_data(*each) for each in along)
    rows = tuple(pixels) if taps == (1, 1) else ()  # each pixel of the output then needs a single one of the image
    return then(result), [
        Product(images, channels // groups, outputs // groups, times, pixels=rows, beside=times - met, groups=groups)
    ]


_DEFAULTS = {"stride": 1, "dilation": 1, "padding": 0}


def _of_both(parameter: Any) -> tuple[int, int]:
    """A parameter for rows and for columns; of a padding, the part before the data."""
    if isinstance(parameter, int):
        return parameter, parameter
    first, second = (each if isinstance(each, int) else each[0] for each in parameter)
    return first, second


def taps_on_data(extent: int, results: int, taps: int, stride: int, dilation: int, before: int) -> int:
    """The number of pairs of a result and a tap, along one dimension, that meet one of ``extent`` pixels."""
    return sum(0 <= r * stride + t * dilation - before < extent for r in range(results) for t in range(taps))


def pointwise(
    function: Callable[..., Expr], *dtypes: str, shape: tuple[int, ...] = (3, 37), name: str = "result"
) -> lt.Tensor:
    """An element-wise function of the inputs."""
    inputs = [lt.placeholder(shape, dtype, name=letter) for letter, dtype in zip("ABCD", dtypes, strict=False)]
    return lt.compute(shape, lambda *i: function(*(tensor[i] for tensor in inputs)), name)


def requantised(shift: int = 7, low: int = -128) -> Callable[[lt.Tensor], lt.Tensor]:
    """The requantisation that follows a convolution."""
    return lambda result: lt.requantise(result, shift, low=low, name="q")


def biased(axis: int = -1) -> Callable[[lt.Tensor], lt.Tensor]:
    """The bias per channel that follows a convolution."""
    return lambda result: lt.bias_add(
        result, lt.placeholder((result.shape[axis],), "int32", name="bias"), axis=axis, name="biased"
    )
