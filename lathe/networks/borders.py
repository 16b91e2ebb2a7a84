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
from lathe.frontend.operand import Expr
from lathe.frontend.operators.rescaling import rescaled_value


@dataclass(frozen=True)
class Run:
    """Indices of a dimension up to ``end``, from the end of the run before, at which the same ``taps`` meet data."""

    end: int
    taps: tuple[int, ...]


def runs_of_taps(size: int, made: int, taps: int, stride: int, dilation: int, before: int) -> tuple[Run, ...]:
    """The runs of a dimension of ``made`` results of ``size`` values with so many ``before`` the first."""
    runs: list[Run] = []
    for n in range(made):
        meet = tuple(tap for tap in range(taps) if 0 <= n * stride + tap * dilation - before < size)
        if runs and runs[-1].taps == meet:
            runs[-1] = Run(n + 1, meet)
        else:
            runs.append(Run(n + 1, meet))
    return tuple(runs)


def sums_of_weights(weights: NDArray[Any], rows: Sequence[Run], columns: Sequence[Run]) -> NDArray[np.int64]:
    """Of weights (M, C, KH, KW) the sums of those that meet data, (rows, columns, M)."""
    by_tap = weights.astype(np.int64).sum(axis=1)
    return np.array(
        [[by_tap[:, list(row.taps)][:, :, list(column.taps)].sum(axis=(1, 2)) for column in columns] for row in rows]
    )


def rescaled_by_place(
    sums: Tensor,
    parameters: Tensor,
    rows: Sequence[Run],
    columns: Sequence[Run],
    zero_point: int,
    relu: bool,
    name: str,
) -> Tensor:
    """Sums (N, H, W, C) as int8, with parameters (rows, columns, C, 2) as ``requantise`` takes them, by runs."""

    def element(n: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
        def rescaled(row: int, column: int) -> Expr:
            bias, word = (parameters[row, column, c, number] for number in (0, 1))
            return rescaled_value(sums[n, y, x, c], bias, word, zero_point, relu=relu)

        return _by_run(y, rows, lambda row: _by_run(x, columns, lambda column: rescaled(row, column)))

    return compute(sums.shape, element, name)


def _by_run(index: Expr, runs: Sequence[Run], value: Callable[[int], Expr]) -> Expr:
    """One of several values, by the run that an index belongs to."""
    found = value(len(runs) - 1)
    for number in reversed(range(len(runs) - 1)):
        found = select(index < runs[number].end, value(number), found)
    return found
