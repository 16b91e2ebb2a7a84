"""NumPy interpreter of single computations."""

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod

import numpy as np

from lathe.frontend.arith.box_evaluator import Box, BoxEvaluator, Span, full_box
from lathe.frontend.arith.substitution import SplitAxes
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.evaluation import REDUCTIONS, Array
from lathe.frontend.expr.nodes import Axis, Computation, Reduce, Tensor
from lathe.frontend.interpreter.contraction import as_contraction, contract

_BLOCK = 1 << 20
"""Maximum number of points of a reduction that are evaluated at once."""


def evaluate_computation(computation: Computation, arrays: Mapping[Tensor, Array]) -> tuple[Array, ...]:
    """The arrays of a computation's outputs, given those of all tensors that it reads (contiguous).

    Elements outside the computation's domain are 0.
    """
    exists = (
        None if computation.where is None else BoxEvaluator(full_box(computation.axes), arrays).full(computation.where)
    )
    split = SplitAxes((*computation.axes, *computation.reduce_axes), computation.bodies)
    axes = tuple(part for axis in computation.axes for part in split.parts[axis])
    results = []
    for body in split.bodies:
        if isinstance(body, Reduce):
            reduce_axes = tuple(part for axis in computation.reduce_axes for part in split.parts[axis])
            value = _reduced(axes, Reduce(body.kind, body.body, reduce_axes), arrays)
        else:
            value = BoxEvaluator(full_box(axes), arrays).value(body)
        result = _stored(value, tuple(axis.extent for axis in axes)).reshape(computation.shape)
        results.append(result if exists is None else np.where(exists, result, result.dtype.type(0)))
    return tuple(results)


def _stored(value: Array, shape: tuple[int, ...]) -> Array:
    """The value as a contiguous array that owns its data."""
    if value.shape == shape and value.base is None and value.flags.c_contiguous:
        return value
    return np.array(np.broadcast_to(value, shape), order="C")


def _reduced(axes: tuple[Axis, ...], reduction: Reduce, arrays: Mapping[Tensor, Array]) -> Array:
    contraction = as_contraction(axes, reduction)
    if contraction is not None:
        return contract(contraction, axes, reduction.dtype, arrays)
    combine = REDUCTIONS[reduction.kind]
    dtype = DTYPES[reduction.dtype].numpy
    result: Array | None = None
    # Reduction axes come first, so that NumPy combines whole rows of data points.
    for box in _reduction_blocks(axes, reduction.axes):
        value = BoxEvaluator(box, arrays).value(reduction.body)
        value = _over_reduction(value, box, reduction.axes)
        part = combine.reduce(value, axis=tuple(range(len(reduction.axes))), dtype=dtype)
        result = part if result is None else combine(result, part)
    assert result is not None, "a reduction must have at least one point"
    return np.asarray(result, dtype)


def _over_reduction(value: Array, box: Box, reduce_axes: tuple[Axis, ...]) -> Array:
    """The value repeated along the reduction axes that it does not depend on."""
    counts = tuple(box[axis].count for axis in reduce_axes)
    return np.broadcast_to(value, (*counts, *value.shape[len(counts) :]))


def _reduction_blocks(axes: tuple[Axis, ...], reduce_axes: tuple[Axis, ...]) -> Iterator[dict[Axis, Span]]:
    """Boxes that cover the reduction, each over all data points and at most ``_BLOCK`` points if possible."""
    data = full_box(axes)
    budget = max(1, _BLOCK // max(1, prod(axis.extent for axis in axes)))
    sizes: dict[Axis, int] = {}
    for axis in reversed(reduce_axes):
        sizes[axis] = min(axis.extent, budget)
        budget = max(1, budget // sizes[axis])
    ranges = [range(axis.start, axis.stop, sizes[axis]) for axis in reduce_axes]
    for starts in product(*ranges):
        block = {
            axis: Span(start, min(sizes[axis], axis.stop - start))
            for axis, start in zip(reduce_axes, starts, strict=True)
        }
        yield {**block, **data}
