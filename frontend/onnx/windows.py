"""Window attributes of convolutions and pools; 1-D windows become 2-D ones on an image of one row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lathe.frontend.onnx.canonical_nodes import same_pads
from lathe.frontend.onnx.quant_graph import Pair, Sides
from lathe.frontend.onnx.unsupported import NotOffloadable


@dataclass(frozen=True)
class Windows:
    """Kernel size, strides, padding (top, left, bottom, right) and dilations, for an image of ``sizes`` (H, W)."""

    sizes: Pair
    kernel: Pair
    strides: Pair
    pads: Sides
    dilations: Pair

    @property
    def plain(self) -> bool:
        """Whether no dilation has an effect."""
        return all(apart == 1 or taps == 1 for apart, taps in zip(self.dilations, self.kernel, strict=True))

    def reach(self, axis: int) -> int:
        """The extent of the dilated kernel along an axis."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1


def windows_of(attributes: Mapping[str, Any], shape: Sequence[int], kernel: Sequence[int]) -> Windows:
    """The windows of a node on data (N, C, H, W) or (N, C, L), with padding from ``pads`` or ``auto_pad``."""
    rank = len(kernel)
    if rank not in (1, 2) or len(shape) != rank + 2:
        raise NotOffloadable(f"its kernel has {rank} spatial dimensions, not 1 or 2")
    strides, dilations = (tuple(attributes.get(name, (1,) * rank)) for name in ("strides", "dilations"))
    auto_pad = attributes.get("auto_pad", "NOTSET")
    pads = list(attributes.get("pads", (0,) * 2 * rank))
    declared = tuple(attributes.get("kernel_shape", kernel))
    if auto_pad not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER") or (auto_pad != "NOTSET" and any(pads)):
        raise NotOffloadable(f"auto_pad {auto_pad!r} with pads {pads} is not supported")
    if declared != tuple(kernel) or any(len(each) != rank for each in (strides, dilations)) or len(pads) != 2 * rank:
        raise NotOffloadable("its kernel_shape, strides, dilations or pads do not match the rank of its weights")
    before, after = [0] * rank, [0] * rank
    if auto_pad == "NOTSET":
        before, after = pads[:rank], pads[rank:]
    elif auto_pad != "VALID":
        for axis, (size, taps, step, apart) in enumerate(zip(shape[2:], kernel, strides, dilations, strict=True)):
            pads_of_axis = same_pads(size, (taps - 1) * apart + 1, step, lower=auto_pad == "SAME_LOWER")
            if min(pads_of_axis) < 0:
                raise NotOffloadable("auto_pad crops the input, as a stride is larger than the kernel")
            before[axis], after[axis] = pads_of_axis
    if min(*before, *after) < 0:
        raise NotOffloadable("its padding is negative")
    for axis, (taps, apart) in enumerate(zip(kernel, dilations, strict=True)):
        if shape[2 + axis] + before[axis] + after[axis] < (taps - 1) * apart + 1:
            raise NotOffloadable("its kernel is larger than the padded input")
    return Windows(
        as_pair(shape[2:], 1), as_pair(kernel, 1), as_pair(strides, 1),
        (*as_pair(before, 0), *as_pair(after, 0)), as_pair(dilations, 1),
    )  # fmt: skip


def as_pair(numbers: Sequence[int], of_rows: int) -> Pair:
    """Two values, for rows and columns; one value is for columns, with ``of_rows`` for the single row."""
    first, second = (of_rows, *numbers)[-2:]
    return first, second


def pads_for_ceil_mode(windows: Windows, counts: Sequence[int]) -> Sides:
    """The padding, with end padding enlarged so that ``counts`` windows fit.

    Every window must start before the input ends: ONNX's shape inference counts later ones, onnxruntime does not.
    """
    for count, step, before, size in zip(
        as_pair(counts, 1), windows.strides, windows.pads[:2], windows.sizes, strict=True
    ):
        if (count - 1) * step >= size + before:
            raise NotOffloadable("its last window starts after the end of the input")
    after = [
        max((count - 1) * step + windows.reach(axis) - size - before, least)
        for axis, (size, count, step, before, least) in enumerate(
            zip(windows.sizes, as_pair(counts, 1), windows.strides, windows.pads[:2], windows.pads[2:], strict=True)
        )
    ]
    return windows.pads[0], windows.pads[1], after[0], after[1]
