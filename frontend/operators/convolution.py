"""Two-dimensional convolution."""

from typing import Literal, TypeAlias

from lathe.configs.integers import integer
from lathe.frontend.expr.arithmetic import const, sum
from lathe.frontend.expr.errors import TensorError, shown
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Tensor
from lathe.frontend.operators.argument_checks import (
    Image,
    ImageLayout,
    Padding,
    Pair,
    checked_dtypes,
    checked_rank,
    image,
    in_layout,
    pair,
    sides,
    windows,
)
from lathe.frontend.operators.padding import pad2d
from lathe.frontend.tensor.compute import compute, reduce_axis

KernelLayout: TypeAlias = Literal["OHWI", "OIHW", "HWIO"]


def conv2d(
    data: Tensor,
    weight: Tensor,
    *,
    layout: ImageLayout = "NHWC",
    kernel_layout: KernelLayout | None = None,
    stride: Pair = 1,
    padding: Padding = 0,
    pad_value: int = 0,
    dilation: Pair = 1,
    groups: int = 1,
    name: str = "conv2d",
) -> Tensor:
    """The convolution (cross-correlation) of int8 images with int8 kernels, summed in int32.

    data (N, H, W, C), or (N, C, H, W) with ``layout="NCHW"``. weight (O, KH, KW, C / groups) for NHWC and
    (O, C / groups, KH, KW) for NCHW unless ``kernel_layout`` says "OHWI", "OIHW" or "HWIO". Result int32
    (N, HO, WO, O) or (N, O, HO, WO), with HO = (top + H + bottom − dilation · (KH − 1) − 1) // stride + 1, WO likewise.

    out[n, y, x, o] = Σ data[n, y·stride + ry·dilation, x·stride + rx·dilation, g·C/groups + rc] · weight[o, ry, rx, rc]
    with g = o // (O / groups). Padding (as in ``pad2d``) is a computation of its own, ``name.pad``, that a DMA can
    perform while loading: zeros on every machine, another ``pad_value``, such as the zero point of quantised images, on
    machines with the extension of that name. Stride and dilation are one number or (vertical, horizontal).

    Raises TensorError when shapes, dtypes, groups or windows don't fit, or pad_value is not an int8.
    """
    where = f"conv2d {name!r}"
    source = image(data, layout, where)
    checked_dtypes(data, ("int8",), f"data of {where}")
    checked_dtypes(weight, ("int8",), f"weight of {where}")
    order = ("OHWI" if layout == "NHWC" else "OIHW") if kernel_layout is None else kernel_layout
    if not isinstance(order, str) or order not in ("OHWI", "OIHW", "HWIO"):
        raise TensorError(f"kernel_layout of {where} must be OHWI, OIHW or HWIO, not {shown(kernel_layout)}.")
    checked_rank(weight, 4, f"weight of {where}", f"one for each letter of {order}")
    extent = dict(zip(order, weight.shape, strict=True))
    strides, dilations = pair(stride, f"stride of {where}"), pair(dilation, f"dilation of {where}")
    around = sides(padding, f"padding of {where}")
    const(pad_value, data.dtype)  # checked even if nothing is padded
    groups = _checked_groups(source, extent, groups, where)
    outputs_per_group = extent["O"] // groups
    borders = ((around.top, around.bottom), (around.left, around.right))
    padded = pad2d(data, borders, value=pad_value, layout=layout, name=f"{name}.pad") if around.any else data
    inner = image(padded, layout, where)
    height = windows(inner.height, extent["H"], strides[0], dilations[0], f"height of {where}")
    width = windows(inner.width, extent["W"], strides[1], dilations[1], f"width of {where}")
    ry, rx, rc = reduce_axis(extent["H"], "ry"), reduce_axis(extent["W"], "rx"), reduce_axis(extent["I"], "rc")

    def element(n: Expr, y: Expr, x: Expr, o: Expr) -> Expr:
        channel = rc + 0 if groups == 1 else o // outputs_per_group
        if groups > 1 and extent["I"] > 1:
            channel = channel * extent["I"] + rc
        row, column = y * strides[0] + ry * dilations[0], x * strides[1] + rx * dilations[1]
        pixel = padded[in_layout(source.layout, n, row, column, channel)]
        tap = {"O": o, "H": ry + 0, "W": rx + 0, "I": rc + 0}
        product = pixel.astype("int32") * weight[tuple(tap[letter] for letter in order)].astype("int32")
        return sum(product, axis=(ry, rx, rc) if layout == "NHWC" else (rc, ry, rx))

    function = (
        (lambda n, y, x, o: element(n, y, x, o)) if layout == "NHWC" else (lambda n, o, y, x: element(n, y, x, o))
    )
    return compute(
        Image(source.batch, height, width, extent["O"], source.layout).shape(),
        function,
        name,
        attrs={
            "operator": "conv2d",
            "layout": layout,
            "kernel_layout": order,
            "stride": strides,
            "padding": borders,
            "pad_value": pad_value,
            "dilation": dilations,
            "groups": groups,
        },
    )


def _checked_groups(source: Image, extent: dict[str, int], given: object, where: str) -> int:
    """The number of groups; raises TensorError when it doesn't divide the channels."""
    groups = integer(given)
    if groups is None or groups < 1:
        raise TensorError(f"groups of {where} must be a positive integer, not {shown(given)}.")
    for what, channels in (("input", source.channels), ("output", extent["O"])):
        if channels % groups:
            raise TensorError(f"groups of {where} must divide its {channels} {what} channels, not be {groups}.")
    expected = source.channels // groups
    if extent["I"] != expected:
        raise TensorError(
            f"input channels of the weight of {where} must be {expected} ({source.channels} channels of the data in "
            f"{groups} group{'s' if groups > 1 else ''}), not {extent['I']}."
        )
    return groups
