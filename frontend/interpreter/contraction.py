"""Exact integer contractions (sums of products) by floating-point BLAS.

A matmul of integers is exact in float32 while every partial sum stays below 2^24 in magnitude, and in float64 below
2^53. Wider operands are split into halves. Convolutions become matmuls through strided views (im2col), in blocks, so
that the im2col matrix is never materialised as a whole.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from lathe.configs.blas_threads import one_blas_thread
from lathe.frontend.arith.affine import axes_that_matter
from lathe.frontend.arith.box_evaluator import Box, BoxEvaluator, Span, full_box
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.evaluation import Array
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Binary, Cast, Read, Reduce, Tensor

_BLOCK = 1 << 20
"""Elements of the larger operand per block; 4 or 8 MB, about the size of a level-2 cache."""

_OPERAND_LIMIT = 1 << 25
"""Maximum number of elements of the smaller operand, whose matrix is held in memory as a whole."""


@dataclass(frozen=True)
class Contraction:
    """A sum over ``summed`` of left · right; axes are classified by the factors that depend on them."""

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
    """A sort key that puts axes last that index later dimensions of the tensor read, as these are closer in memory."""
    dimensions: dict[Axis, int] = {}
    if isinstance(factor, Read):
        for dimension, index in enumerate(factor.indices):
            dimensions.update(dict.fromkeys(axes_that_matter(index), dimension))
    return lambda axis: dimensions.get(axis, 0)


def _unwidened(factor: Expr) -> Expr:
    """The factor without conversions that preserve its value."""
    while isinstance(factor, Cast):
        inner, outer = DTYPES[factor.operand.dtype], DTYPES[factor.dtype]
        if factor.operand.dtype == "bool" or inner.minimum < outer.minimum or inner.maximum > outer.maximum:
            break
        factor = factor.operand
    return factor


def contract(contraction: Contraction, axes: tuple[Axis, ...], dtype: str, arrays: Mapping[Tensor, Array]) -> Array:
    """The contraction over the box of ``axes``, wrapped around to ``dtype``."""
    right = _matrix(contraction, contraction.right, full_box(axes), arrays, left=False)
    result = np.empty([axis.extent if _varies(axis, contraction) else 1 for axis in axes], DTYPES[dtype].numpy)
    order = (*contraction.both, *contraction.rows, *contraction.columns)
    permutation = [order.index(axis) for axis in axes if axis in order]
    with one_blas_thread():
        for box in _blocks(contraction, axes):
            left = _matrix(contraction, contraction.left, box, arrays, left=True)
            operand = right
            if contraction.both:
                window = tuple(_slice(box[axis], axis) for axis in contraction.both)
                stack = right.reshape([axis.extent for axis in contraction.both] + list(right.shape[1:]))
                operand = stack[window].reshape(left.shape[0], *right.shape[1:])
            sums = _integer_matmul(left, operand)
            if contraction.repeats != 1:
                sums = sums.astype(np.int64) * np.int64(contraction.repeats)
            sums = sums.reshape([box[axis].count for axis in order]).transpose(permutation)
            window = tuple(_slice(box[axis], axis) if axis in order else slice(0, 1) for axis in axes)
            shape = [box[axis].count if axis in order else 1 for axis in axes]
            result[window] = sums.reshape(shape).astype(DTYPES[dtype].numpy, copy=False)
    return result


def _slice(span: Span, axis: Axis) -> slice:
    """The slice of a span in an array over the whole axis."""
    return slice(span.start - axis.start, span.start - axis.start + span.count)


def _varies(axis: Axis, contraction: Contraction) -> bool:
    return axis in contraction.both or axis in contraction.rows or axis in contraction.columns


def _blocks(contraction: Contraction, axes: tuple[Axis, ...]) -> Iterator[Box]:
    """Blocks of the box of data axes, each with about ``_BLOCK`` elements of the larger operand, or one row of it."""
    every = full_box(axes)
    outer = (*contraction.both, *contraction.rows)
    size = prod(axis.extent for axis in (*outer, *contraction.summed, *contraction.left_only))
    sizes: dict[Axis, int] = {}
    for axis in outer:
        sizes[axis] = min(axis.extent, max(1, axis.extent * _BLOCK // size))
        size = size // axis.extent * sizes[axis]
    for starts in product(*(range(0, axis.extent, sizes[axis]) for axis in outer)):
        block = {
            axis: Span(start, min(sizes[axis], axis.extent - start)) for axis, start in zip(outer, starts, strict=True)
        }
        yield {**every, **block}


def _matrix(contraction: Contraction, factor: Expr, box: Box, arrays: Mapping[Tensor, Array], left: bool) -> Array:
    """One factor as a stack of matrices: (both, rows, summed) for the left one, (both, summed, columns) otherwise."""
    free = contraction.rows if left else contraction.columns
    alone = contraction.left_only if left else contraction.right_only
    own = {axis: box[axis] for axis in (*contraction.both, *free)}
    evaluator = BoxEvaluator({**own, **full_box(contraction.summed), **full_box(alone)}, arrays)
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
        permuted = (*range(first), *range(first + len(free), value.ndim), *range(first, first + len(free)))
        matrices = np.ascontiguousarray(value.transpose(permuted)).reshape(shape[0], shape[2], shape[1])
        return matrices.transpose(0, 2, 1) if left else matrices
    matrices = np.ascontiguousarray(value).reshape(shape)
    return matrices if left else matrices.transpose(0, 2, 1)


def _integer_matmul(left: Array, right: Array) -> Array:
    """Batched matrix multiplication of integers, exact modulo 2^64."""
    largest = _magnitude(left) * _magnitude(right) * left.shape[-1]
    if largest < 1 << 24:
        return _float_matmul(left, right, np.float32, np.int32)
    if largest < 1 << 53:
        return _float_matmul(left, right, np.float64, np.int32 if largest < 1 << 31 else np.int64)
    if _magnitude(left) < _magnitude(right):
        return _integer_matmul(right.transpose(0, 2, 1), left.transpose(0, 2, 1)).transpose(0, 2, 1)
    half = np.int64(_magnitude(left).bit_length() // 2)
    wide = left.astype(np.int64)
    low = _integer_matmul(wide & ((np.int64(1) << half) - 1), right).astype(np.int64)
    high = _integer_matmul(wide >> half, right).astype(np.int64)
    return np.asarray(low + (high << half))


def _float_matmul(left: Array, right: Array, via: type[np.floating[Any]], dtype: type[np.signedinteger[Any]]) -> Array:
    sums: Array = np.matmul(left.astype(via), right.astype(via))
    return sums.astype(dtype)


def _magnitude(values: Array) -> int:
    if values.dtype == np.int8:
        return 128
    return max(1, int(values.max()), -int(values.min()))
