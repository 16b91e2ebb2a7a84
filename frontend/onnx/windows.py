"""Borders of windows that walk over an image."""

from collections.abc import Mapping
from typing import Any

from lathe.frontend.onnx.layers import Pair


def pads_of(
    attributes: Mapping[str, Any], sizes: tuple[int, ...], kernel: Pair, strides: Pair, dilations: Pair
) -> tuple[int, int, int, int]:
    """Top, left, bottom and right, by ``pads`` or ``auto_pad``."""
    automatic = attributes.get("auto_pad", "NOTSET")
    if automatic == "NOTSET":
        top, left, bottom, right = attributes.get("pads", (0, 0, 0, 0))
        return top, left, bottom, right
    if automatic == "VALID":
        return 0, 0, 0, 0
    before, behind = [], []
    for size, taps, step, apart in zip(sizes, kernel, strides, dilations, strict=True):
        missing = max((-(-size // step) - 1) * step + (taps - 1) * apart + 1 - size, 0)
        less, more = missing // 2, missing - missing // 2
        before.append(less if automatic == "SAME_UPPER" else more)
        behind.append(more if automatic == "SAME_UPPER" else less)
    return before[0], before[1], behind[0], behind[1]


def wide_enough(
    sizes: tuple[int, ...], made: tuple[int, ...], kernel: Pair, strides: Pair, pads: tuple[int, int, int, int]
) -> tuple[int, int, int, int]:
    """Borders behind an image so wide that windows which begin inside are whole."""
    behind = [
        max((count - 1) * step + taps - size - before, least)
        for size, count, taps, step, before, least in zip(sizes, made, kernel, strides, pads[:2], pads[2:], strict=True)
    ]
    return pads[0], pads[1], behind[0], behind[1]
