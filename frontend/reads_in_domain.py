"""The check that no computation reads outside the domain of a tensor."""

import islpy as isl
import numpy as np

from lathe.frontend.accesses import ReadAccess
from lathe.frontend.domains import ENUMERATION_LIMIT, blocks, check_exists
from lathe.frontend.dtypes import DTYPES
from lathe.frontend.errors import DomainError
from lathe.frontend.evaluation import evaluate
from lathe.frontend.expressions import Axis, Expr, Read, axes_of, reads_data, walk
from lathe.frontend.intervals import interval
from lathe.frontend.polyhedra import Points, limited_operations
from lathe.frontend.tensors import Computation


def check_reads(computation: Computation) -> None:
    """Raise DomainError unless every read of the computation is of a cell that its tensor has, wherever it happens.

    Affine and quasi-affine indices and conditions are decided exactly. Others are decided by intervals, or by visiting
    the points when these are few; when that fails too, the read is refused with what is missing.
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
    except isl.Error:
        pass
    _check_one_by_one(computation, read, position, index, extent)


def _outside(points: Points, read: ReadAccess, value: isl.PwAff, extent: int) -> dict[Axis, int] | None:
    """The lexicographically first point at which the index leaves ``0 … extent - 1``, or None."""
    negative = points.universe.intersect(value.neg().pos_set())
    limit = isl.PwAff.from_aff(isl.Aff.val_on_domain(points.local, isl.Val(extent)))
    happens = points.box().intersect(points.where(read.guards))
    outside = happens.intersect(negative.union(value.ge_set(limit)))
    if outside.is_empty():
        return None
    sample = outside.lexmin().sample_point()
    return {
        axis: sample.get_coordinate_val(isl.dim_type.set, position).to_python()
        for position, axis in enumerate(points.axes)
    }


def _check_one_by_one(computation: Computation, read: ReadAccess, position: int, index: Expr, extent: int) -> None:
    """Decide by visiting points; a condition on data counts as one that may hold, an index from data as any value."""
    guards = [(expr, holds) for expr, holds in read.guards if not reads_data(expr)]
    if reads_data(index):
        raise _unbounded_error(computation, read, position, index, extent)
    axes = axes_of(index, *(expr for expr, _ in guards))
    count = 1
    for axis in axes:
        count *= axis.extent
    if count > ENUMERATION_LIMIT:
        raise _undecided_error(computation, read, position, index, extent, count)
    for env in blocks(axes, count):
        value = evaluate(index, env)
        wrong = (value < 0) | (value >= extent)
        for expr, holds in guards:
            wrong = wrong & (evaluate(expr, env) == holds)
        if wrong.any():
            at = int(np.argmax(np.broadcast_to(wrong, np.broadcast_shapes(*(v.shape for v in env.values())))))
            point = {axis: axis.start for axis in (*computation.axes, *computation.reduce_axes)}
            raise _outside_error(computation, read, point | {axis: int(env[axis][at]) for axis in axes})


def _outside_error(computation: Computation, read: ReadAccess, point: dict[Axis, int]) -> DomainError:
    tensor = read.tensor
    cell = ", ".join(str(index) if reads_data(index) else str(int(evaluate(index, point))) for index in read.indices)
    where = ", ".join(f"{axis.name} = {value}" for axis, value in point.items())
    condition = ""
    if any(reads_data(expr) for expr, _ in read.guards):
        condition = " A condition that reads data cannot keep a read inside."
    return DomainError(
        f"read {read.node} of computation {computation.name!r} must stay inside the shape {tensor.shape} of tensor "
        f"{tensor.name!r}, not reach {tensor.name}[{cell}] at {where or 'its only point'}.{condition} "
        "Shrink the domain, or guard the read with select(condition, read, 0)."
    )


def _unbounded_error(
    computation: Computation, read: ReadAccess, position: int, index: Expr, extent: int
) -> DomainError:
    low, high = interval(index)
    data = next(node for node in walk(index) if isinstance(node, Read))
    kind = DTYPES[data.dtype]
    return DomainError(
        f"index {position} of read {read.node} of computation {computation.name!r} must lie within 0 to {extent - 1} "
        f"for the shape {read.tensor.shape} of tensor {read.tensor.name!r}, not {low} to {high}: {data} may be any "
        f"{kind.name}. Limit it, as in min(max(index, 0), {extent - 1})."
    )


def _undecided_error(
    computation: Computation, read: ReadAccess, position: int, index: Expr, extent: int, count: int
) -> DomainError:
    low, high = interval(index)
    return DomainError(
        f"index {position} of read {read.node} of computation {computation.name!r} must be shown to lie within 0 to "
        f"{extent - 1} for the shape {read.tensor.shape} of tensor {read.tensor.name!r}, not within {low} to {high}, "
        f"which is all that its form tells: it is not affine, and {count} points are too many to visit. "
        f"Limit it, as in min(max(index, 0), {extent - 1})."
    )
