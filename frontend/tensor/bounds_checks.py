"""Bounds check: no computation reads outside the domain of a tensor."""

from collections.abc import Mapping
from math import prod

import islpy as isl
import numpy as np

from lathe.frontend.arith.intervals import interval
from lathe.frontend.arith.polyhedra import Points, TooManyOperationsError, limited_operations
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.errors import DomainError
from lathe.frontend.expr.evaluation import evaluate
from lathe.frontend.expr.expr_base import Expr, walk
from lathe.frontend.expr.nodes import Axis, Computation, Read, ReadAccess, axes_of, reads_data
from lathe.frontend.tensor.domains import ENUMERATION_LIMIT, blocks, check_exists, first_point, lexmin, outside_error


def check_reads(computation: Computation) -> None:
    """Raise DomainError unless every read that the computation executes is inside the domain of its tensor.

    Affine and quasi-affine indices and conditions are decided exactly. Others are decided by intervals, or by
    enumerating points if there are few; a read that cannot be decided is an error.
    """
    for read in computation.reads:
        for position, (index, extent) in enumerate(zip(read.indices, read.tensor.shape, strict=True)):
            low, high = interval(index)
            if low < 0 or high >= extent:
                _check_index(computation, read, position, index, extent)
        check_exists(computation, read)


def _check_index(computation: Computation, read: ReadAccess, position: int, index: Expr, extent: int) -> None:
    points = Points((*computation.axes, *computation.reduce_axes), computation.name)
    try:
        with limited_operations():
            value = points.value(index)
            exact = value is not None and points.is_exact(read.guards)
            point = _outside(points, read, value, extent) if value is not None else None
        if value is not None and (exact or point is None):
            if point is not None:
                raise _outside_error(computation, read, point)
            return
    except TooManyOperationsError:
        pass
    _check_by_enumeration(computation, read, position, index, extent)


def _outside(points: Points, read: ReadAccess, value: isl.PwAff, extent: int) -> dict[Axis, int] | None:
    """The lexicographically first point at which the index is outside ``0 … extent - 1``, or None."""
    negative = points.universe.intersect(value.neg().pos_set())
    limit = isl.PwAff.from_aff(isl.Aff.val_on_domain(points.local, isl.Val(extent)))
    happens = points.box().intersect(points.where(read.guards))
    outside = happens.intersect(negative.union(value.ge_set(limit)))
    return None if outside.is_empty() else lexmin(points, outside)


def _check_by_enumeration(computation: Computation, read: ReadAccess, position: int, index: Expr, extent: int) -> None:
    """Decide by enumerating points; conditions on data may hold or fail, and an index from data may be any value."""
    guards = [(expr, holds) for expr, holds in read.guards if not reads_data(expr)]
    if reads_data(index):
        raise _unbounded_error(computation, read, position, index, extent)
    axes = axes_of(index, *(expr for expr, _ in guards))
    count = prod(axis.extent for axis in axes)
    if count > ENUMERATION_LIMIT:
        raise _undecided_error(computation, read, position, index, extent, count)

    def is_outside(env: Mapping[Axis, np.ndarray]) -> np.ndarray:
        value = evaluate(index, env)
        return (value < 0) | (value >= extent)

    point = first_point(computation, guards, blocks(axes, count), is_outside)
    if point is not None:
        raise _outside_error(computation, read, point)


def _outside_error(computation: Computation, read: ReadAccess, point: dict[Axis, int]) -> DomainError:
    tensor = read.tensor
    return outside_error(computation, read, f"the shape {tensor.shape} of tensor {tensor.name!r}", point)


def _unbounded_error(
    computation: Computation, read: ReadAccess, position: int, index: Expr, extent: int
) -> DomainError:
    low, high = interval(index)
    data = next(node for node in walk(index) if isinstance(node, Read))
    kind = DTYPES[data.dtype]
    return DomainError(
        f"index {position} of read {read.node} of computation {computation.name!r} must be from 0 to {extent - 1} "
        f"for the shape {read.tensor.shape} of tensor {read.tensor.name!r}, not {low} to {high}: {data} may be any "
        f"{kind.name}. Clamp it, as in min(max(index, 0), {extent - 1})."
    )


def _undecided_error(
    computation: Computation, read: ReadAccess, position: int, index: Expr, extent: int, count: int
) -> DomainError:
    low, high = interval(index)
    return DomainError(
        f"Cannot prove that index {position} of read {read.node} of computation {computation.name!r} is from 0 to "
        f"{extent - 1} for the shape {read.tensor.shape} of tensor {read.tensor.name!r}: it is not affine, has the "
        f"interval {low} to {high}, and {count} points are too many to test. "
        f"Clamp it, as in min(max(index, 0), {extent - 1})."
    )
