"""Windows that walk over an image, as nodes tell of them; of one dimension they are those of an image of one row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lathe.frontend.onnx.quant_graph import Pair, Sides
from lathe.frontend.onnx.unsupported import NotOffloadable


@dataclass(frozen=True)
class Windows:
    """Taps, steps, borders (top, left, bottom, right) and distances of taps, of an image of ``sizes``."""

    sizes: Pair
    kernel: Pair
    strides: Pair
    pads: Sides
    dilations: Pair

    @property
    def plain(self) -> bool:
        """Whether taps are neighbours."""
        return all(apart == 1 or taps == 1 for apart, taps in zip(self.dilations, self.kernel, strict=True))

    def reach(self, axis: int) -> int:
        """Rows, or columns, from the first tap to the last."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1


def windows_of(attributes: Mapping[str, Any], shape: Sequence[int], kernel: Sequence[int]) -> Windows:
    """The windows of a node on data (N, C, H, W) or (N, C, L), by ``pads`` or ``auto_pad``."""
    rank = len(kernel)
    if rank not in (1, 2) or len(shape) != rank + 2:
        raise NotOffloadable(f"its windows have {rank} dimensions, not 1 or 2")
    strides, dilations = (tuple(attributes.get(name, (1,) * rank)) for name in ("strides", "dilations"))
    automatic = attributes.get("auto_pad", "NOTSET")
    pads = list(attributes.get("pads", (0,) * 2 * rank))
    written = tuple(attributes.get("kernel_shape", kernel))
    if automatic not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER") or (automatic != "NOTSET" and any(pads)):
        raise NotOffloadable(f"its auto_pad is {automatic!r} with pads {pads}")
    if written != tuple(kernel) or any(len(each) != rank for each in (strides, dilations)) or len(pads) != 2 * rank:
        raise NotOffloadable("its windows, steps and borders are not of its weights' dimensions")
    before, behind = [0] * rank, [0] * rank
    if automatic == "NOTSET":
        before, behind = pads[:rank], pads[rank:]
    elif automatic != "VALID":
        for axis, (size, taps, step, apart) in enumerate(zip(shape[2:], kernel, strides, dilations, strict=True)):
            missing = max((-(-size // step) - 1) * step + (taps - 1) * apart + 1 - size, 0)
            less, more = missing // 2, missing - missing // 2
            before[axis], behind[axis] = (less, more) if automatic == "SAME_UPPER" else (more, less)
    if min(*before, *behind) < 0:
        raise NotOffloadable("its borders take away from the image")
    for axis, (taps, apart) in enumerate(zip(kernel, dilations, strict=True)):
        if shape[2 + axis] + before[axis] + behind[axis] < (taps - 1) * apart + 1:
            raise NotOffloadable("its windows are larger than the image with its borders")
    return Windows(
        as_pair(shape[2:], 1), as_pair(kernel, 1), as_pair(strides, 1),
        (*as_pair(before, 0), *as_pair(behind, 0)), as_pair(dilations, 1),
    )  # fmt: skip


def as_pair(numbers: Sequence[int], of_rows: int) -> Pair:
    """Numbers of an image's rows and columns; of one number, what a single row has before it."""
    first, second = (of_rows, *numbers)[-2:]
    return first, second


def wide_enough(windows: Windows, made: Sequence[int]) -> Sides:
    """Borders behind an image so wide that as many windows as are made are whole, of which each begins before its end.

    ONNX's inference of shapes counts windows that onnxruntime leaves out.
    """
    for count, step, before, size in zip(
        as_pair(made, 1), windows.strides, windows.pads[:2], windows.sizes, strict=True
    ):
        if (count - 1) * step >= size + before:
            raise NotOffloadable("its last window begins behind the image")
    behind = [
        max((count - 1) * step + windows.reach(axis) - size - before, least)
        for axis, (size, count, step, before, least) in enumerate(
            zip(windows.sizes, as_pair(made, 1), windows.strides, windows.pads[:2], windows.pads[2:], strict=True)
        )
    ]
    return windows.pads[0], windows.pads[1], behind[0], behind[1]
