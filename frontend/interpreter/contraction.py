"""Sums of products by matrix multiplication: exact results from floating-point BLAS.

A product of integers is exact in float32 while every partial sum stays below 2^24 in magnitude, and in float64 below
2^53. Wider operands are split into halves. Convolutions become matrix products through strided views (im2col), in
blocks, so that the columns never exist all at once.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from lathe.configs.blas_threads import one_blas_thread
from lathe.frontend.arith.affine import axes_that_matter
from lathe.frontend.arith.box_evaluator import Box, DenseEvaluator, Span, whole
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.evaluation import Array
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Binary, Cast, Read, Reduce, Tensor

_BLOCK = 1 << 20
"""Elements of the larger operand that are laid out as a matrix at once; 4 or 8 MB, about a second-level cache."""

_OPERAND_LIMIT = 1 << 25
"""Elements of the smaller operand beyond which the matrix form is not worth its memory."""


@dataclass(frozen=True)
class Contraction:
    """A sum over ``summed`` of left · right, where every axis is classed by which factors depend on it."""

    left: Expr
    right: Expr
    both: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    summed: tuple[Axis, ...]
    left_only: tuple[Axis, ...]
    right_only: tuple[Axis, ...]
    repeats: int


def as_contraction(axes: tuple[Axis, ...], reduction: Reduce) -> Contraction | None:
    """The reduction as a contraction when it is a sum of products that share a summed axis, else None."""
    body = reduction.body
    if reduction.kind != "sum" or not isinstance(body, Binary) or body.op != "mul":
        return None
    left, right = _unwidened(body.lhs), _unwidened(body.rhs)
    in_left, in_right = axes_that_matter(left), axes_that_matter(right)
    if _points(axes, reduction, in_left) < _points(axes, reduction, in_right):
        left, right, in_left, in_right = right, left, in_right, in_left
    if _points(axes, reduction, in_right) > _OPERAND_LIMIT:
        return None
    shared = in_left & in_right
    summed = tuple(sorted((axis for axis in reduction.axes if axis in shared), key=_nesting(left)))
    if not summed:
        return None
    return Contraction(
        left,
        right,
        tuple(axis for axis in axes if axis in shared),
        tuple(axis for axis in axes if axis in in_left - shared),
        tuple(axis for axis in axes if axis in in_right - shared),
        summed,
        tuple(axis for axis in reduction.axes if axis in in_left - shared),
        tuple(axis for axis in reduction.axes if axis in in_right - shared),
        prod(axis.extent for axis in reduction.axes if axis not in in_left | in_right),
    )


def _points(axes: tuple[Axis, ...], reduction: Reduce, used: set[Axis]) -> int:
    return prod(axis.extent for axis in (*axes, *reduction.axes) if axis in used)


def _nesting(factor: Expr) -> Callable[[Axis], int]:
    """Sorts axes by how close together their values lie in memory: later dimensions of the tensor read are closer."""
    places: dict[Axis, int] = {}
    if isinstance(factor, Read):
        for dimension, index in enumerate(factor.indices):
            places.update(dict.fromkeys(axes_that_matter(index), dimension))
    return lambda axis: places.get(axis, 0)


def _unwidened(factor: Expr) -> Expr:
    """The factor without a conversion that keeps every value."""
    while isinstance(factor, Cast):
        inner, outer = DTYPES[factor.operand.dtype], DTYPES[factor.dtype]
        if factor.operand.dtype == "bool" or inner.minimum < outer.minimum or inner.maximum > outer.maximum:
            break
        factor = factor.operand
    return factor


def contract(contraction: Contraction, axes: tuple[Axis, ...], dtype: str, arrays: Mapping[Tensor, Array]) -> Array:
    """The contraction over the box of ``axes``, wrapped around to ``dtype``."""
    right = _matrix(contraction, contraction.right, whole(axes), arrays, left=False)
    result = np.empty([axis.extent if _varies(axis, contraction) else 1 for axis in axes], DTYPES[dtype].numpy)
    order = (*contraction.both, *contraction.rows, *contraction.columns)
    place = [order.index(axis) for axis in axes if axis in order]
    with one_blas_thread():
        for box in _blocks(contraction, axes):
            left = _matrix(contraction, contraction.left, box, arrays, left=True)
            part = right
            if contraction.both:
                window = tuple(_slice(box[axis], axis) for axis in contraction.both)
                stack = right.reshape([axis.extent for axis in contraction.both] + list(right.shape[1:]))
                part = stack[window].reshape(left.shape[0], *right.shape[1:])
            sums = _product(left, part)
            if contraction.repeats != 1:
                sums = sums.astype(np.int64) * np.int64(contraction.repeats)
            sums = sums.reshape([box[axis].count for axis in order]).transpose(place)
            window = tuple(_slice(box[axis], axis) if axis in order else slice(0, 1) for axis in axes)
            shape = [box[axis].count if axis in order else 1 for axis in axes]
            result[window] = sums.reshape(shape).astype(DTYPES[dtype].numpy, copy=False)
    return result


def _slice(span: Span, axis: Axis) -> slice:
    """Where a span of an axis lies in an array over all of the axis."""
    return slice(span.start - axis.start, span.start - axis.start + span.count)


def _varies(axis: Axis, contraction: Contraction) -> bool:
    return axis in contraction.both or axis in contraction.rows or axis in contraction.columns


def _blocks(contraction: Contraction, axes: tuple[Axis, ...]) -> Iterator[Box]:
    """The box of data axes in pieces, each with about ``_BLOCK`` elements of the larger operand, or one row of it."""
    every = whole(axes)
    outer = (*contraction.both, *contraction.rows)
    size = prod(axis.extent for axis in (*outer, *contraction.summed, *contraction.left_only))
    steps: dict[Axis, int] = {}
    for axis in outer:
        steps[axis] = min(axis.extent, max(1, axis.extent * _BLOCK // size))
        size = size // axis.extent * steps[axis]
    for starts in product(*(range(0, axis.extent, steps[axis]) for axis in outer)):
        cut = {
            axis: Span(start, min(steps[axis], axis.extent - start)) for axis, start in zip(outer, starts, strict=True)
        }
        yield {**every, **cut}


def _matrix(contraction: Contraction, factor: Expr, box: Box, arrays: Mapping[Tensor, Array], left: bool) -> Array:
    """One factor as a stack of matrices: (both, rows, summed) for the left one, (both, summed, columns) otherwise."""
    free = contraction.rows if left else contraction.columns
    alone = contraction.left_only if left else contraction.right_only
    own = {axis: box[axis] for axis in (*contraction.both, *free)}
    evaluator = DenseEvaluator({**own, **whole(contraction.summed), **whole(alone)}, arrays)
    value = evaluator.full(factor)
    if alone:
        value = value.sum(axis=tuple(range(value.ndim - len(alone), value.ndim)), dtype=np.int64)
    first = len(contraction.both)
    shape = (
        prod(value.shape[:first]),
        prod(value.shape[first : first + len(free)]),
        prod(value.shape[first + len(free) :]),
    )
    # The copy runs fastest when the dimension that is contiguous in memory stays innermost.
    inner_free = free and abs(value.strides[first + len(free) - 1]) < abs(value.strides[-1])
    if inner_free:
        turned = (*range(first), *range(first + len(free), value.ndim), *range(first, first + len(free)))
        matrices = np.ascontiguousarray(value.transpose(turned)).reshape(shape[0], shape[2], shape[1])
        return matrices.transpose(0, 2, 1) if left else matrices
    matrices = np.ascontiguousarray(value).reshape(shape)
    return matrices if left else matrices.transpose(0, 2, 1)


def _product(left: Array, right: Array) -> Array:
    """The matrix products as integers, exact modulo 2^64."""
    largest = _magnitude(left) * _magnitude(right) * left.shape[-1]
    if largest < 1 << 24:
        return _exact(left, right, np.float32, np.int32)
    if largest < 1 << 53:
        return _exact(left, right, np.float64, np.int32 if largest < 1 << 31 else np.int64)
    if _magnitude(left) < _magnitude(right):
        return _product(right.transpose(0, 2, 1), left.transpose(0, 2, 1)).transpose(0, 2, 1)
    half = np.int64(_magnitude(left).bit_length() // 2)
    wide = left.astype(np.int64)
    low = _product(wide & ((np.int64(1) << half) - 1), right).astype(np.int64)
    high = _product(wide >> half, right).astype(np.int64)
    return np.asarray(low + (high << half))


def _exact(left: Array, right: Array, through: type[np.floating[Any]], dtype: type[np.signedinteger[Any]]) -> Array:
    sums: Array = np.matmul(left.astype(through), right.astype(through))
    return sums.astype(dtype)


def _magnitude(values: Array) -> int:
    if values.dtype == np.int8:
        return 128
    return max(1, int(values.max()), -int(values.min()))
