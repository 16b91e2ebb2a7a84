"""Vectorised evaluation over a box of points: affine reads become strided views, conditions restrict the box."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lathe.frontend.arith.affine import Affine, as_affine
from lathe.frontend.arith.conditions import conjuncts
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.evaluation import Array, Evaluator
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Compare, Read, Select, Tensor


@dataclass(frozen=True)
class Span:
    """Consecutive values of an axis."""

    start: int
    count: int

    @property
    def last(self) -> int:
        return self.start + self.count - 1


Box = Mapping[Axis, Span]


def full_box(axes: tuple[Axis, ...]) -> dict[Axis, Span]:
    """The box of all points of the axes; the order of axes is that of array dimensions."""
    return {axis: Span(axis.start, axis.extent) for axis in axes}


class BoxEvaluator(Evaluator):
    """Evaluates expressions over a box of points, one array dimension per axis of the box, in its order.

    A result has extent 1 in the dimensions that it does not depend on. It may be a view of a tensor's array, so it must
    not be written to. ``arrays`` must be contiguous.
    """

    def __init__(self, box: Box, arrays: Mapping[Tensor, Array]) -> None:
        super().__init__(arrays)
        self.box = box
        self.arrays = arrays
        self._position = {axis: position for position, axis in enumerate(box)}

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(span.count for span in self.box.values())

    def full(self, expr: Expr) -> Array:
        """The value of the expression at every point of the box."""
        return np.broadcast_to(self.value(expr), self.shape)

    def axis(self, axis: Axis) -> Array:
        span = self.box[axis]
        shape = [1] * len(self.box)
        shape[self._position[axis]] = span.count
        return np.arange(span.start, span.start + span.count, dtype=np.int64).reshape(shape)

    def read(self, read: Read) -> Array:
        array = self.arrays[read.tensor]
        offset = 0
        shape, strides = [1] * len(self.box), [0] * len(self.box)
        for index, extent, stride in zip(read.indices, array.shape, array.strides, strict=True):
            form = as_affine(index)
            if form is None or not self._in_bounds(form, extent):
                return self._gathered(read)
            offset += stride * form.const
            for axis, factor in form.coefficients.items():
                position = self._position[axis]
                offset += stride * factor * self.box[axis].start
                shape[position] = self.box[axis].count
                strides[position] += stride * factor
        return np.ndarray(tuple(shape), array.dtype, array, offset, tuple(strides))

    def _gathered(self, read: Read) -> Array:
        gathered = super().read(read)
        return gathered.reshape([1] * (len(self.box) - gathered.ndim) + list(gathered.shape))

    def _in_bounds(self, form: Affine, extent: int) -> bool:
        low = high = form.const
        for axis, factor in form.coefficients.items():
            ends = factor * self.box[axis].start, factor * self.box[axis].last
            low += min(ends)
            high += max(ends)
        return low >= 0 and high < extent

    def select(self, expr: Select) -> Array:
        inside = self._sub_box(expr.condition)
        if inside is None:
            return super().select(expr)
        if inside == self.box:
            return self.value(expr.then)
        if any(span.count <= 0 for span in inside.values()):
            return self.value(expr.otherwise)
        result = np.empty(self.shape, DTYPES[expr.dtype].numpy)
        result[...] = self.value(expr.otherwise)
        window = tuple(
            slice(span.start - outer.start, span.start - outer.start + span.count)
            for span, outer in zip(inside.values(), self.box.values(), strict=True)
        )
        result[window] = BoxEvaluator(inside, self.arrays).value(expr.then)
        return result

    def _sub_box(self, condition: Expr) -> dict[Axis, Span] | None:
        """The sub-box in which the condition holds; None if it is not a conjunction of bounds on single axes."""
        inside = dict(self.box)
        for node in conjuncts(condition):
            bounds = _axis_bounds(node) if isinstance(node, Compare) else None
            if bounds is None:
                return None
            axis, low, high = bounds
            start = inside[axis].start if low is None else max(inside[axis].start, low)
            last = inside[axis].last if high is None else min(inside[axis].last, high)
            inside[axis] = Span(start, last - start + 1)
        return inside


def _axis_bounds(node: Compare) -> tuple[Axis, int | None, int | None] | None:
    """The axis that a comparison bounds, and its smallest and largest value (None: unbounded); None for any other."""
    left, right = as_affine(node.lhs), as_affine(node.rhs)
    if left is None or right is None or node.op == "ne":
        return None
    difference = left.plus(right, -1)
    if len(difference.coefficients) != 1:
        return None
    ((axis, factor),) = difference.coefficients.items()
    # factor·axis + const is compared with 0; each comparison is one or two of the form "at least" after a sign change.
    low: int | None = None
    high: int | None = None
    for sign, slack in {"ge": [(1, 0)], "gt": [(1, 1)], "le": [(-1, 0)], "lt": [(-1, 1)], "eq": [(1, 0), (-1, 0)]}[
        node.op
    ]:
        scale, bound = sign * factor, slack - sign * difference.const  # scale·axis >= bound
        if scale > 0:
            low = -(-bound // scale)
        else:
            high = bound // scale
    return axis, low, high
