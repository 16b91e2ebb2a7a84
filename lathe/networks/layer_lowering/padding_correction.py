"""Convolutions of data whose zero point is not 0, with borders of zeros: what a border would add is in the biases.

A border holds the zero point, so that it adds nothing: sums of ``(data - zero) * weights`` are sums of ``data *
weights``, less ``zero`` times the sum of the weights. Products with a border of zeros are left out on the machine,
which takes less time. Then a pixel's bias holds the weights of those taps alone that meet the image, and pixels at
which the same taps do have the same biases::

    taps of 3 that meet 5 rows, with one before and behind    1 2 | 0 1 2 | 0 1 2 | 0 1 2 | 0 1
    rows of one bias                                            0     1 .. 3                  4
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
    """Indices of a dimension up to ``end``, from the end of the run before, at which the same ``taps`` meet data."""

    end: int
    taps: tuple[int, ...]


@dataclass(frozen=True)
class PlacesOfTaps:
    """The runs of rows and of columns of a result."""

    rows: tuple[Run, ...]
    columns: tuple[Run, ...]


@dataclass(frozen=True, eq=False)
class SumsOfWeights:
    """Of each filter the sum of its weights, (filters,); or of those that meet data, (rows, columns, filters)."""

    sums: NDArray[np.int64]
    places: PlacesOfTaps | None = None

    @classmethod
    def of(cls, weights: NDArray[Any], places: PlacesOfTaps | None = None) -> "SumsOfWeights":
        """The sums of weights (filters, ...), or of (filters, C, KH, KW) by the places of their taps."""
        whole = weights.astype(np.int64)
        if places is None:
            return cls(whole.reshape(len(whole), -1).sum(axis=1))
        taps = whole.sum(axis=1)
        by_row = [taps[:, list(row.taps)].sum(axis=1) for row in places.rows]
        sums = [[row[:, list(column.taps)].sum(axis=1) for column in places.columns] for row in by_row]
        return cls(np.array(sums), places)

    @property
    def everywhere(self) -> NDArray[np.int64]:
        """The sums where all taps do."""
        assert self.places is None, "the sums differ by place"
        return self.sums


def places_of_taps(layer: Conv, data: tuple[int, ...], made: tuple[int, ...]) -> PlacesOfTaps:
    """Where which taps of a convolution meet data, of images (N, C, H, W)."""
    rows, columns = (
        _runs(data[2 + n], made[2 + n], layer.weights.shape[2 + n], layer.strides[n], layer.dilations[n], layer.pads[n])
        for n in range(2)
    )
    return PlacesOfTaps(rows, columns)


def _runs(size: int, made: int, taps: int, stride: int, dilation: int, before: int) -> tuple[Run, ...]:
    """The runs of a dimension of ``made`` results of ``size`` values with so many ``before`` the first."""
    runs: list[Run] = []
    for n in range(made):
        meet = tuple(tap for tap in range(taps) if 0 <= n * stride + tap * dilation - before < size)
        if runs and runs[-1].taps == meet:
            runs[-1] = Run(n + 1, meet)
        else:
            runs.append(Run(n + 1, meet))
    return tuple(runs)


def rescaled_by_place(
    sums: Tensor, parameters: Tensor, places: PlacesOfTaps, zero_point: int, relu: bool, name: str
) -> Tensor:
    """Sums (N, H, W, C) as int8, with parameters (rows, columns, C, 2) as ``requantise`` takes them.

    Or with (rows, columns, C, 2, 2), as ``rescaled_add`` takes them for a sum of two of them.
    """

    def element(n: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
        def rescaled(row: int, column: int) -> Expr:
            value = sums[n, y, x, c]
            if parameters.ndim > 4:
                rows = [(parameters[row, column, c, part, 0], parameters[row, column, c, part, 1]) for part in (0, 1)]
                return rescaled_sum_value((value, value), rows, zero_point, relu=relu)
            bias, word = (parameters[row, column, c, number] for number in (0, 1))
            return rescaled_value(value, bias, word, zero_point, relu=relu)

        return _by_run(y, places.rows, lambda row: _by_run(x, places.columns, lambda column: rescaled(row, column)))

    return compute(sums.shape, element, name)


def _by_run(index: Expr, runs: Sequence[Run], value: Callable[[int], Expr]) -> Expr:
    """One of several values, by the run that an index belongs to."""
    found = value(len(runs) - 1)
    for number in reversed(range(len(runs) - 1)):
        found = select(index < runs[number].end, value(number), found)
    return found
