"""Conditions on indices that are not affine, as boxes: their points are visited where these are few."""

from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.expr.evaluation import evaluate
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, axes_of, reads_data

MOST_POINTS = 1 << 14
"""How many points of a condition are visited to find its boxes."""

MOST_BOXES = 48
"""How many boxes a condition may consist of: isl's time grows with their number."""

Box = tuple[tuple[Axis, int, int], ...]
"""Ranges of axes, both ends included; other axes are free."""


@lru_cache(maxsize=512)
def boxes_of(condition: Expr) -> tuple[tuple[Box, ...], tuple[Box, ...]] | None:
    """Disjoint boxes in which a condition holds, and those in which it does not; None where there are too many of them.

    They cover all values of the axes that the condition depends on. Conditions on data have no boxes.
    """
    if reads_data(condition):
        return None
    axes = axes_of(condition)
    if np.prod([axis.extent for axis in axes], dtype=object) > MOST_POINTS:
        return None
    ranges = [np.arange(axis.start, axis.stop) for axis in axes]
    points = dict(zip(axes, np.meshgrid(*ranges, indexing="ij", sparse=True), strict=True))
    shape = tuple(axis.extent for axis in axes)
    found: tuple[list[Box], list[Box]] = ([], [])
    _collect(np.broadcast_to(evaluate(condition, points), shape), axes, (), found)
    holds, fails = found
    return None if max(len(holds), len(fails)) > MOST_BOXES else (tuple(holds), tuple(fails))


def _collect(truth: NDArray[np.bool_], axes: tuple[Axis, ...], box: Box, found: tuple[list[Box], list[Box]]) -> None:
    """Runs of equal slices along the first axis, each taken apart along the others."""
    if not axes or truth.all() or not truth.any():
        found[0 if truth.all() else 1].append(box)
        return
    if max(map(len, found)) > MOST_BOXES:
        return
    axis, *rest = axes
    for _, run in groupby(range(axis.extent), key=lambda n: truth[n].tobytes()):
        values = list(run)
        inside = (*box, (axis, axis.start + values[0], axis.start + values[-1]))
        _collect(truth[values[0]], tuple(rest), inside, found)
