"""Domains that are not boxes: checks of domain conditions, and of reads of tensors that have one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod

import islpy as isl
import numpy as np

from lathe.frontend.arith.conditions import conjuncts
from lathe.frontend.arith.polyhedra import Points, TooManyOperationsError, limited_operations, points_of
from lathe.frontend.arith.substitution import substitute
from lathe.frontend.expr.errors import DomainError, TensorError
from lathe.frontend.expr.evaluation import evaluate
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.identities import structurally_equal
from lathe.frontend.expr.nodes import Axis, Computation, Guard, ReadAccess, axes_of, reads_data

ENUMERATION_LIMIT = 1 << 24
"""Maximum number of points that a check enumerates when neither intervals nor isl can decide."""

_BLOCK = 1 << 18


def simplified_where(computation: Computation) -> Expr | None:
    """The domain condition of a computation, or None if it always holds.

    Quasi-affine conditions are decided exactly, others that read no data by enumerating points. Raises TensorError if
    the condition holds nowhere.
    """
    where = computation.where
    assert where is not None
    can_hold, can_fail = _truth(computation, where)
    if not can_hold:
        ranges = " and ".join(f"{axis.start} <= {axis.name} < {axis.stop}" for axis in computation.axes)
        raise TensorError(
            f"where of computation {computation.name!r} must hold at some point of its shape {computation.shape}: "
            f"{where} holds for no point of {ranges}. Remove the computation, or correct the condition."
        )
    return where if can_fail else None


def _truth(computation: Computation, where: Expr) -> tuple[bool, bool]:
    """Whether a condition can hold somewhere, and whether it can fail somewhere."""
    points = Points(computation.axes, computation.name)
    try:
        with limited_operations():
            holds, fails = (points.box().intersect(points.where([(where, truth)])) for truth in (True, False))
            can_hold, can_fail = not holds.is_empty(), not fails.is_empty()
            if points.is_exact([(where, True)]) or not (can_hold and can_fail):
                return can_hold, can_fail
    except TooManyOperationsError:
        pass
    if reads_data(where):
        return True, True
    axes = axes_of(where)
    count = prod(axis.extent for axis in axes)
    if count > ENUMERATION_LIMIT:
        return True, True
    found = [False, False]
    for env in blocks(axes, count):
        value = evaluate(where, env)
        found = [found[0] or bool(value.any()), found[1] or not bool(value.all())]
        if all(found):
            break
    return found[0], found[1]


def check_exists(computation: Computation, read: ReadAccess) -> None:
    """Raise DomainError unless a read is inside the domain of its tensor wherever it happens.

    Only tensors whose computation has a domain condition need this. Quasi-affine conditions are decided exactly, others
    by finding them among the guards of the read, or by enumerating points.
    """
    producer = read.tensor.computation
    if producer is None or producer.where is None:
        return
    indices = dict(zip(producer.axes, read.indices, strict=True))
    given = [each for expr, holds in read.guards if holds for each in conjuncts(expr)]
    for condition in conjuncts(producer.where):
        required = substitute(condition, indices)
        if not any(structurally_equal(required, each) for each in given):
            _check(computation, read, required)


def _check(computation: Computation, read: ReadAccess, required: Expr) -> None:
    points = points_of(computation)
    try:
        with limited_operations():
            fails = points.condition(required, False)
            if fails is not None:
                outside = points.box().intersect(points.where(read.guards)).intersect(fails)
                if outside.is_empty():
                    return
                if points.is_exact(read.guards):
                    raise _missing_error(computation, read, lexmin(points, outside))
    except TooManyOperationsError:
        pass
    _check_by_enumeration(computation, read, required)


def lexmin(points: Points, point_set: isl.Set) -> dict[Axis, int]:
    """The lexicographically first point of a set."""
    sample = point_set.lexmin().sample_point()
    return {
        axis: sample.get_coordinate_val(isl.dim_type.set, position).to_python()
        for position, axis in enumerate(points.axes)
    }


def _check_by_enumeration(computation: Computation, read: ReadAccess, required: Expr) -> None:
    if reads_data(required):
        raise _unknown_error(computation, read, required, "it depends on data")
    guards: list[Guard] = [(expr, holds) for expr, holds in read.guards if not reads_data(expr)]
    axes = axes_of(required, *(expr for expr, _ in guards))
    count = prod(axis.extent for axis in axes)
    if count > ENUMERATION_LIMIT:
        raise _unknown_error(computation, read, required, f"it is not affine, and {count} points are too many to test")
    point = first_point(computation, guards, blocks(axes, count), lambda env: ~evaluate(required, env))
    if point is not None:
        raise _missing_error(computation, read, point)


def first_point(
    computation: Computation,
    guards: Iterable[Guard],
    points: Iterable[Mapping[Axis, np.ndarray]],
    wrong_at: Callable[[Mapping[Axis, np.ndarray]], np.ndarray],
) -> dict[Axis, int] | None:
    """The first of ``points`` (in blocks) where all guards hold and ``wrong_at`` is true; None if there is none.

    Axes of the computation that ``points`` leaves out are at their start.
    """
    for env in points:
        wrong = wrong_at(env)
        for expr, holds in guards:
            wrong = wrong & (evaluate(expr, env) == holds)
        if wrong.any():
            at = int(np.argmax(np.broadcast_to(wrong, np.broadcast_shapes(*(v.shape for v in env.values())))))
            point = {axis: axis.start for axis in (*computation.axes, *computation.reduce_axes)}
            return point | {axis: int(values[at]) for axis, values in env.items()}
    return None


def blocks(axes: tuple[Axis, ...], count: int) -> Iterator[dict[Axis, np.ndarray]]:
    """All points in lexicographic order, in blocks of flat coordinate arrays."""
    for begin in range(0, count, _BLOCK):
        flat = np.arange(begin, min(begin + _BLOCK, count))
        coordinates = np.unravel_index(flat, [axis.extent for axis in axes]) if axes else ()
        yield {axis: where + axis.start for axis, where in zip(axes, coordinates, strict=True)}


def _missing_error(computation: Computation, read: ReadAccess, point: dict[Axis, int]) -> DomainError:
    producer = read.tensor.computation
    assert producer is not None
    inside = f"the domain of tensor {read.tensor.name!r} ({producer.where})"
    return outside_error(computation, read, inside, point)


def outside_error(computation: Computation, read: ReadAccess, inside: str, point: dict[Axis, int]) -> DomainError:
    """The error for a read that is not ``inside`` its tensor at a point."""
    cell = ", ".join(str(index) if reads_data(index) else str(int(evaluate(index, point))) for index in read.indices)
    where = ", ".join(f"{axis.name} = {value}" for axis, value in point.items())
    condition = ""
    if any(reads_data(expr) for expr, _ in read.guards):
        condition = " Conditions on data do not bound reads."
    return DomainError(
        f"read {read.node} of computation {computation.name!r} must stay inside {inside}, not reach "
        f"{read.tensor.name}[{cell}] at {where or 'its only point'}.{condition} Shrink the domain, or guard the read "
        "with select(condition, read, 0)."
    )


def _unknown_error(computation: Computation, read: ReadAccess, required: Expr, reason: str) -> DomainError:
    return DomainError(
        f"Cannot prove that read {read.node} of computation {computation.name!r} stays inside the domain of tensor "
        f"{read.tensor.name!r}, where {required}: {reason}. Give the computation, or a select around the read, "
        "the same condition."
    )
