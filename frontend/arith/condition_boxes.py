"""Conditions on indices that are not affine, as unions of boxes, found by enumerating points if there are few."""

from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from lathe.frontend.expr.evaluation import evaluate
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, axes_of, reads_data

MOST_POINTS = 1 << 14
"""Maximum number of points that are enumerated for one condition."""

MOST_BOXES = 48
"""Maximum number of boxes of a condition: the time of isl grows with it."""

Box = tuple[tuple[Axis, int, int], ...]
"""Inclusive ranges of axes; other axes are unconstrained."""


@lru_cache(maxsize=512)
def boxes_of(condition: Expr) -> tuple[tuple[Box, ...], tuple[Box, ...]] | None:
    """Disjoint boxes in which a condition holds and in which it fails; None for one on data or too many boxes.

    Together they cover all values of the axes that the condition depends on.
    """
    if reads_data(condition):
        return None
    axes = axes_of(condition)
    if np.prod([axis.extent for axis in axes], dtype=object) > MOST_POINTS:
        return None
    ranges = [np.arange(axis.start, axis.stop) for axis in axes]
    points = dict(zip(axes, np.meshgrid(*ranges, indexing="ij", sparse=True), strict=True))
    shape = tuple(axis.extent for axis in axes)
    boxes: tuple[list[Box], list[Box]] = ([], [])
    _collect(np.broadcast_to(evaluate(condition, points), shape), axes, (), boxes)
    holds, fails = boxes
    return None if max(len(holds), len(fails)) > MOST_BOXES else (tuple(holds), tuple(fails))


def _collect(truth: NDArray[np.bool_], axes: tuple[Axis, ...], box: Box, boxes: tuple[list[Box], list[Box]]) -> None:
    """Splits the first axis into runs of equal slices, and each run recursively along the other axes."""
    if not axes or truth.all() or not truth.any():
        boxes[0 if truth.all() else 1].append(box)
        return
    if max(map(len, boxes)) > MOST_BOXES:
        return
    axis, *rest = axes
    for _, run in groupby(range(axis.extent), key=lambda n: truth[n].tobytes()):
        values = list(run)
        inside = (*box, (axis, axis.start + values[0], axis.start + values[-1]))
        _collect(truth[values[0]], tuple(rest), inside, boxes)
