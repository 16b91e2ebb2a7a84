"""Zero-point correction at padding: convolutions of data with a zero point pad with 0, and correct it in the bias.

Padding has the value of the zero point: the sum of ``(data - zero) * weights`` is the sum of ``data * weights`` minus
``zero`` times the sum of the weights. Padding with 0 instead lets the compiler omit taps on padding, which is faster.
Then a pixel's bias contains the weights of only those taps that are inside the image, and is the same for all pixels
with the same taps::

    taps of 3 inside 5 rows, with padding of 1    1 2 | 0 1 2 | 0 1 2 | 0 1 2 | 0 1
    rows with the same bias                         0     1 .. 3                  4
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.frontend import Tensor, compute, select
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.onnx.quant_graph import Conv
from lathe.frontend.operators.rescaling import rescaled_sum_value, rescaled_value


@dataclass(frozen=True)
class Run:
    """Output indices from the end of the previous run to ``end``, at which the same ``taps`` are inside the image."""

    end: int
    taps: tuple[int, ...]


@dataclass(frozen=True)
class TapRegions:
    """The runs of output rows and columns, which form regions of equal bias."""

    rows: tuple[Run, ...]
    columns: tuple[Run, ...]


@dataclass(frozen=True, eq=False)
class SumsOfWeights:
    """The sum of each output channel's weights, (channels,); or for each region, (rows, columns, channels)."""

    sums: NDArray[np.int64]
    regions: TapRegions | None = None

    @classmethod
    def of(cls, weights: NDArray[Any], regions: TapRegions | None = None) -> "SumsOfWeights":
        """The sums of weights (channels, ...), or of (channels, C, KH, KW) for each of ``regions``."""
        whole = weights.astype(np.int64)
        if regions is None:
            return cls(whole.reshape(len(whole), -1).sum(axis=1))
        taps = whole.sum(axis=1)
        by_row = [taps[:, list(row.taps)].sum(axis=1) for row in regions.rows]
        sums = [[row[:, list(column.taps)].sum(axis=1) for column in regions.columns] for row in by_row]
        return cls(np.array(sums), regions)

    @property
    def of_all_taps(self) -> NDArray[np.int64]:
        """The sums of all taps, (channels,)."""
        assert self.regions is None, "the sums differ by region"
        return self.sums


def tap_regions(layer: Conv, data: tuple[int, ...], made: tuple[int, ...]) -> TapRegions:
    """The regions of a convolution's result, for input and output shapes (N, C, H, W)."""
    rows, columns = (
        _runs(data[2 + n], made[2 + n], layer.weights.shape[2 + n], layer.strides[n], layer.dilations[n], layer.pads[n])
        for n in range(2)
    )
    return TapRegions(rows, columns)


def _runs(size: int, made: int, taps: int, stride: int, dilation: int, before: int) -> tuple[Run, ...]:
    """The runs of a dimension with ``made`` outputs, ``size`` inputs, and padding ``before``."""
    runs: list[Run] = []
    for n in range(made):
        meet = tuple(tap for tap in range(taps) if 0 <= n * stride + tap * dilation - before < size)
        if runs and runs[-1].taps == meet:
            runs[-1] = Run(n + 1, meet)
        else:
            runs.append(Run(n + 1, meet))
    return tuple(runs)


def rescale_by_region(
    sums: Tensor, parameters: Tensor, regions: TapRegions, zero_point: int, relu: bool, name: str
) -> Tensor:
    """Rescale sums (N, H, W, C) to int8, with parameters (rows, columns, C, 2) of ``requantise`` for each region.

    Or with (rows, columns, C, 2, 2), as in ``rescaled_add``, for fractional biases.
    """

    def element(n: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
        def rescaled(row: int, column: int) -> Expr:
            value = sums[n, y, x, c]
            if parameters.ndim > 4:
                rows = [(parameters[row, column, c, part, 0], parameters[row, column, c, part, 1]) for part in (0, 1)]
                return rescaled_sum_value((value, value), rows, zero_point, relu=relu)
            bias, word = (parameters[row, column, c, number] for number in (0, 1))
            return rescaled_value(value, bias, word, zero_point, relu=relu)

        return _by_run(y, regions.rows, lambda row: _by_run(x, regions.columns, lambda column: rescaled(row, column)))

    return compute(sums.shape, element, name)


def _by_run(index: Expr, runs: Sequence[Run], value: Callable[[int], Expr]) -> Expr:
    """A select of the value of an index's run."""
    found = value(len(runs) - 1)
    for number in reversed(range(len(runs) - 1)):
        found = select(index < runs[number].end, value(number), found)
    return found
