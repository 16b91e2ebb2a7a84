"""Two-dimensional depthwise convolution: each channel is convolved with its own kernels."""

from lathe.frontend.expr.arithmetic import const, sum
from lathe.frontend.expr.errors import TensorError
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Tensor
from lathe.frontend.operators.argument_checks import (
    Image,
    ImageLayout,
    Padding,
    Pair,
    checked_dtypes,
    checked_tensor,
    image,
    in_layout,
    pair,
    sides,
    windows,
)
from lathe.frontend.operators.padding import pad2d
from lathe.frontend.tensor.compute import compute, reduce_axis


def depthwise_conv2d(
    data: Tensor,
    weight: Tensor,
    *,
    layout: ImageLayout = "NHWC",
    stride: Pair = 1,
    padding: Padding = 0,
    pad_value: int = 0,
    dilation: Pair = 1,
    name: str = "depthwise",
) -> Tensor:
    """The depthwise convolution of int8 images with int8 kernels, one or several for each channel, summed in int32.

    data (N, H, W, C), or (N, C, H, W) with ``layout="NCHW"``. weight (KH, KW, C), or (KH, KW, C, M) with M kernels for
    each channel. Result int32 (N, HO, WO, C · M) or (N, C · M, HO, WO), with HO and WO as ``conv2d`` has them.

    out[n, y, x, c·M + m] = Σ data[n, y·stride + ry·dilation, x·stride + rx·dilation, c] · weight[ry, rx, c, m]

    Other arguments are those of ``conv2d``, which is equivalent with ``groups=C`` and weights (C · M, KH, KW, 1).
    Weights that are inputs or constants of a program are expanded to diagonal matrices for the GEMM core where that is
    faster than the ALU (see ``explain``); their size is then multiplied by the channels of a block.

    Raises TensorError when shapes, dtypes or windows don't fit, or pad_value is not an int8.
    """
    where = f"depthwise_conv2d {name!r}"
    source = image(data, layout, where)
    checked_dtypes(data, ("int8",), f"data of {where}")
    checked_tensor(weight, f"weight of {where}")
    checked_dtypes(weight, ("int8",), f"weight of {where}")
    if weight.ndim not in (3, 4) or weight.shape[2] != source.channels:
        raise TensorError(
            f"weight of {where} must have shape (KH, KW, {source.channels}) or (KH, KW, {source.channels}, M), as the "
            f"data have {source.channels} channels, not {weight.shape}."
        )
    rows, columns, channels, *several = weight.shape
    kernels = several[0] if several else 1
    strides, dilations = pair(stride, f"stride of {where}"), pair(dilation, f"dilation of {where}")
    around = sides(padding, f"padding of {where}")
    const(pad_value, data.dtype)  # checked even if nothing is padded
    borders = ((around.top, around.bottom), (around.left, around.right))
    padded = pad2d(data, borders, value=pad_value, layout=layout, name=f"{name}.pad") if around.any else data
    inner = image(padded, layout, where)
    height = windows(inner.height, rows, strides[0], dilations[0], f"height of {where}")
    width = windows(inner.width, columns, strides[1], dilations[1], f"width of {where}")
    ry, rx = reduce_axis(rows, "ry"), reduce_axis(columns, "rx")

    def element(n: Expr, y: Expr, x: Expr, o: Expr) -> Expr:
        channel = o // kernels if kernels > 1 else o
        own = (o % kernels if kernels > 1 else 0,) if several else ()
        row, column = y * strides[0] + ry * dilations[0], x * strides[1] + rx * dilations[1]
        pixel = padded[in_layout(source.layout, n, row, column, channel)]
        return sum(pixel.astype("int32") * weight[(ry, rx, channel, *own)].astype("int32"), axis=(ry, rx))

    function = (
        (lambda n, y, x, o: element(n, y, x, o)) if layout == "NHWC" else (lambda n, o, y, x: element(n, y, x, o))
    )
    return compute(
        Image(source.batch, height, width, channels * kernels, source.layout).shape(),
        function,
        name,
        attrs={
            "operator": "depthwise_conv2d",
            "layout": layout,
            "stride": strides,
            "padding": borders,
            "pad_value": pad_value,
            "dilation": dilations,
        },
    )
