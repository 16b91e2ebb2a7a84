"""Pooling over windows of an image."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from lathe.frontend.expr.arithmetic import max, sum
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.errors import TensorError
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Tensor
from lathe.frontend.operators.argument_checks import (
    Image,
    ImageLayout,
    Padding,
    Pair,
    checked_dtypes,
    image,
    in_layout,
    pair,
    sides,
)
from lathe.frontend.operators.padding import pad2d
from lathe.frontend.operators.requantisation import shifted
from lathe.frontend.tensor.compute import compute, reduce_axis


def max_pool2d(
    data: Tensor,
    window: Pair,
    *,
    stride: Pair | None = None,
    padding: Padding = 0,
    layout: ImageLayout = "NHWC",
    name: str = "max_pool2d",
) -> Tensor:
    """The maximum over windows: data (N, H, W, C), or NCHW, of any integer dtype, which is also the result's.

    out[n, y, x, c] = max over ry < KH, rx < KW of data[n, y·stride + ry, x·stride + rx, c]; the stride is the window's
    size unless given. HO = (top + H + bottom − KH) // stride + 1, WO likewise. Padding, ``name.pad``, holds the least
    value of the dtype. Raises TensorError when shapes or dtypes don't fit.
    """
    where = f"max_pool2d {name!r}"
    checked_dtypes(data, ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"), f"data of {where}")
    return _pooled(
        data, window, stride, padding, layout, name, where, "max_pool2d",
        DTYPES[data.dtype].minimum, lambda value, axes: max(value, axis=axes),
    )  # fmt: skip


def avg_pool2d(
    data: Tensor,
    window: Pair,
    *,
    stride: Pair | None = None,
    padding: Padding = 0,
    layout: ImageLayout = "NHWC",
    name: str = "avg_pool2d",
) -> Tensor:
    """The average over windows, rounded to nearest with ties up: data (N, H, W, C), or NCHW, int8; int8 out.

    The sum, ``name.sum``, is int32; cells of the padding count as zeros. A window of 2**s cells is divided by
    (sum + 2**(s − 1)) >> s. Any other is multiplied and shifted, with factors that fit 16-bit immediates: see
    ``Division``. The result is exact for every window of up to 92 cells and most larger ones; else it is off by one for
    a few sums.
    Raises TensorError when shapes or dtypes don't fit.
    """
    where = f"avg_pool2d {name!r}"
    checked_dtypes(data, ("int8",), f"data of {where}")
    total = _pooled(
        data, window, stride, padding, layout, name, where, "avg_pool2d.sum",
        0, lambda value, axes: sum(value.astype("int32"), axis=axes), suffix=".sum",
    )  # fmt: skip
    height, width = pair(window, f"window of {where}")
    cells = height * width
    function: Callable[[Expr], Expr]
    if cells & (cells - 1) == 0:
        bits = cells.bit_length() - 1
        function = lambda value: shifted(value, bits, rounding=True)  # noqa: E731
    else:
        division = division_by(cells)
        function = division.of
    return compute(
        total.shape,
        lambda *i: function(total[i]).astype("int8"),
        name,
        attrs={"operator": "avg_pool2d", "cells": cells, "layout": layout},
    )


def _pooled(
    data: Tensor,
    window: Pair,
    stride: Pair | None,
    padding: Padding,
    layout: ImageLayout,
    name: str,
    where: str,
    operator: str,
    fill: int,
    combine: Callable[[Expr, tuple[Axis, Axis]], Expr],
    suffix: str = "",
) -> Tensor:
    source = image(data, layout, where)
    size = pair(window, f"window of {where}")
    strides = size if stride is None else pair(stride, f"stride of {where}")
    around = sides(padding, f"padding of {where}")
    if around.top >= size[0] or around.bottom >= size[0] or around.left >= size[1] or around.right >= size[1]:
        raise TensorError(
            f"padding of {where} must be smaller than its window {size}, not {padding!r}: "
            "a window would contain only padding."
        )
    padded = pad2d(data, padding, value=fill, layout=layout, name=f"{name}.pad") if around.any else data
    inner = image(padded, layout, where)
    counts = []
    for direction, extent, taps, distance in zip(
        ("height", "width"), (inner.height, inner.width), size, strides, strict=True
    ):
        if taps > extent:
            raise TensorError(
                f"{direction} of {where} with its padding must be at least {taps}, as its window, not {extent}."
            )
        counts.append((extent - taps) // distance + 1)
    ry, rx = reduce_axis(size[0], "ry"), reduce_axis(size[1], "rx")

    def element(n: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
        return combine(padded[in_layout(source.layout, n, y * strides[0] + ry, x * strides[1] + rx, c)], (ry, rx))

    function = (
        (lambda n, y, x, c: element(n, y, x, c)) if layout == "NHWC" else (lambda n, c, y, x: element(n, y, x, c))
    )
    return compute(
        Image(source.batch, counts[0], counts[1], source.channels, source.layout).shape(),
        function,
        f"{name}{suffix}",
        attrs={"operator": operator, "layout": layout, "window": size, "stride": strides},
    )


@dataclass(frozen=True)
class Division:
    """``x / cells`` rounded to nearest, ties up, as ``(((x + before) · multiplier + after) >> shift) − offset``."""

    before: int
    multiplier: int
    after: int
    shift: int
    offset: int

    def of(self, value: Expr) -> Expr:
        """The expression, without the addends that are 0."""
        moved = value + self.before if self.before else value
        scaled = moved * self.multiplier
        rounded = (scaled + self.after if self.after else scaled) >> self.shift
        return rounded - self.offset if self.offset else rounded

    def fits(self, cells: int) -> bool:
        """Whether every factor fits the 16-bit immediates and every intermediate value int32.

        Windows of more than 254 cells have sums beyond 16 bits; their addend is then as wide as it must be.
        """
        widest = (128 * cells + self.before) * self.multiplier + self.after
        addend = self.before if cells <= 254 else 0
        return 0 < self.multiplier < 1 << 15 and addend < 1 << 15 and self.after < 1 << 15 and widest < 1 << 31


@cache
def division_by(cells: int) -> Division:
    """The division of a sum of ``cells`` int8 values by ``cells``, in factors that fit 16-bit immediates.

    Candidates are tested on every possible sum, by increasing shift, and the first exact one is taken: with three
    operations if possible, else with four, of which the first makes the sum non-negative. If none is exact, it is the
    one with the fewest deviations.
    """
    sums = np.arange(-128 * cells, 127 * cells + 1, dtype=np.int64)
    expected = (2 * sums + cells) // (2 * cells)
    inexact: list[tuple[int, Division]] = []
    for division in _candidates(cells):
        if division.fits(cells):
            value = ((sums + division.before) * division.multiplier + division.after) >> division.shift
            wrong = int(np.count_nonzero(value - division.offset != expected))
            if wrong == 0:
                return division
            inexact.append((wrong, division))
    assert inexact, f"no multiplier for a window of {cells} cells"
    return min(inexact, key=lambda pair: pair[0])[1]


def _candidates(cells: int) -> Iterator[Division]:
    for shift in range(1, 16):
        for multiplier in ((1 << shift) // cells, (1 << shift) // cells + 1):
            # The addend compensates the multiplier's error at the ends of the range, so that every tie rounds up.
            error = abs(multiplier * cells - (1 << shift)) * 128
            yield Division(0, multiplier, (1 << (shift - 1)) + error, shift, 0)
    for shift in range(1, 31):
        # With a multiplier rounded up and a non-negative sum, the quotient is never too small.
        yield Division(cells // 2 + 128 * cells, (1 << shift) // cells + 1, 0, shift, 128)
