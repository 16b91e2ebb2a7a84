"""``branch`` and ``reduce_extent``: instances without effect are skipped."""

from collections.abc import Callable
from dataclasses import replace

import islpy as isl

from lathe.frontend import Axis
from lathe.frontend.arith.conditions import conjunction
from lathe.frontend.arith.polyhedra import OPERATIONS_LIMIT, TooManyOperationsError, limited_operations
from lathe.frontend.expr.arithmetic import neutral_element
from lathe.frontend.expr.expr_base import Expr, walk
from lathe.frontend.expr.nodes import AxisRef, Compare, Const, Read, Reduce, Select, Undef
from lathe.scheduler.errors import PaddingError, ScheduleError
from lathe.scheduler.legality.guard_removal import GuardRemoval, free_points, mentions, roots_under, with_bodies
from lathe.scheduler.legality.padding_dataflow import Dataflow
from lathe.scheduler.primitives.overcompute import with_axis
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.rewriting.padding import live_conditions
from lathe.scheduler.rewriting.undef import conjuncts, without_undef
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike
from lathe.scheduler.schedule_ir.stage import StageState

SET = isl.dim_type.set


def branch(stage: EditedStage, axis: "AxisLike | None" = None) -> None:
    """Skip the instances of a loop (of all loops, without ``axis``) that have no effect: less work, but a branch.

    The inverse of ``overcompute``. Before, with ``A`` laid out by ``[i, j // 4, j % 4]`` and ``pad_value=0``::

        for i in 0..16:
          B[i] = 0
          for jo in 0..4:
            for ji in 0..4:
              B[i] += A[i, (4*jo + ji) // 4, (4*jo + ji) % 4]

    After ``s[B].branch(ji)``::

        for i in 0..16:
          B[i] = 0
          for jo in 0..4:
            for ji in 0..4:
              B[i] += select(4*jo + ji < 14, A[i, (4*jo + ji) // 4, (4*jo + ji) % 4], 0)

    In a data loop, it skips instances that compute padding of the stage's own layout, whose contract is written
    instead, if there is one. In a reduction loop, it skips the first and last iterations that only reduce neutral
    values, whatever the elements are.

    Raises PaddingError, with an instance, if every iteration of a reduction loop reduces an element; ScheduleError for
    a loop of another stage, or a data loop without padding. RFC 0077's remove_overcompute_through_branching.
    """
    axes = roots_under(stage, axis, "branch")
    data = {each for each in axes if each.kind == "data"}
    state = stage.state
    if data:
        state = _defined_where(stage, data)
    found: PaddingError | None = None
    for each in state.computation.reduce_axes:
        if each in axes:
            try:
                first, last = _needed(stage, each, "branch")
            except PaddingError as error:
                found = error
                continue
            if _run_outside(stage, each, first, last):
                state = _restricted(state, each, first, last)
    if state is stage.state and not stage.schedule.replaying:
        if found is not None:
            raise found
        of = "" if axis is None else f"loop {stage.find(axis, 'branch').name} of "
        raise ScheduleError(
            f"Cannot branch in {of}stage {stage.name}: every instance has an effect, as no padding is computed without "
            "a condition.",
            kind="argument",
        )
    commit(stage.schedule, {stage: state}, "branch")


def reduce_extent(stage: EditedStage, axis: "AxisLike") -> None:
    """Shrink a reduction axis to the iterations that reduce something: fewer iterations, and no condition.

    Before, with ``A`` laid out by ``[i, (j + 2) // 8, (j + 2) % 8]`` and ``pad_value=0``, or with a ``select``::

        for i in 0..16:
          B[i] = 0
          for j in 0..16:
            B[i] += select(j < 14, A[i, j], 0)

    After ``s[B].reduce_extent(j)``::

        for i in 0..16:
          B[i] = 0
          for j in 0..14:
            B[i] += A[i, j]

    Removes the first and last iterations that only reduce neutral values, whatever the elements are, and conditions
    that hold in all others. Raises PaddingError, with an instance, if the first and the last iteration reduce
    something; ScheduleError for a loop of another stage, or a data loop: its instances compute cells of the tensor, and
    chunks leave out those that need not be computed. RFC 0077's reduction of loop extents.
    """
    loop = stage.find(axis, "reduce_extent")
    axes = roots_under(stage, axis, "reduce_extent")
    if len(axes) != 1 or next(iter(axes)).kind == "data":
        over = " and ".join(sorted(axis.name for axis in axes))
        if any(axis.kind == "data" for axis in axes):
            over = "cells of the tensor"
        raise ScheduleError(
            f"loop of reduce_extent on stage {stage.name} must be a loop over one reduction axis, not {loop.name!r}, "
            f"which {f'runs over {over}' if over else 'other loops determine'}.",
            kind="argument",
        )
    (old,) = axes
    try:
        first, last = _needed(stage, old, "reduce_extent")
    except PaddingError:
        if stage.schedule.replaying:
            return
        raise
    new = Axis(old.name, last - first + 1, first, "reduce")
    state, renamed = with_axis(stage.state, old, new)
    flow = Dataflow(stage.schedule, state.computation)
    bodies = tuple(
        Reduce(body.kind, _decided(body.body, flow), body.axes) if isinstance(body, Reduce) else body
        for body in state.computation.bodies
    )
    state = replace(state, computation=with_bodies(state.computation, bodies))
    commit(stage.schedule, {stage: state}, "reduce_extent", renamed=renamed)


def _decided(body: Expr, flow: Dataflow) -> Expr:
    """The expression without outer conditions that always hold."""
    while isinstance(body, Select):
        fails = flow.where(body.condition, False, flow.domain())
        if fails is None or not fails.is_empty():
            return body
        body = body.then
    return body


def _defined_where(stage: EditedStage, axes: set[Axis]) -> StageState:
    """The stage under its layout's conditions on some axes, else the contract; unchanged if it has them."""
    state = stage.state
    computation = state.computation
    layout = stage.schedule.layouts.get(state.tensor)
    if layout is None or not layout.padding_count or len(state.tensors) > 1:
        return state
    body = computation.bodies[0]
    inner = body.body if isinstance(body, Reduce) else body
    flow = Dataflow(stage.schedule, computation)
    levels: list[tuple[list[Expr], Expr | None]] = []
    for live, value in live_conditions(layout.padded_maps, computation.axes):
        other: Expr | None = Undef(inner.dtype) if value is None else value
        if (
            isinstance(body, Reduce)
            and isinstance(other, Const)
            and other.value != neutral_element(body.kind, body.dtype)
        ):
            other = None  # not the result of an empty reduction
        elif isinstance(other, Expr) and any(isinstance(node, Read) for node in walk(other)):
            other = None
        levels.append((conjuncts(live), other))
    new = _conditioned(inner, levels, mentions(axes), flow, flow.domain())
    if new is inner:
        return state
    whole = Reduce(body.kind, new, body.axes) if isinstance(body, Reduce) else new
    return replace(state, computation=with_bodies(computation, (whole,)))


def _conditioned(
    expr: Expr,
    levels: list[tuple[list[Expr], Expr | None]],
    selects: Callable[[Expr], bool],
    flow: Dataflow,
    points: isl.Set,
) -> Expr:
    """An expression under the conditions of a layout that ``selects`` picks, those of the last map outermost."""
    if not levels:
        return expr
    (terms, other), *deeper = levels
    inside: list[isl.Set] = []
    for term in terms:
        found = flow.where(term, True, points)
        assert found is not None, f"{term} is not affine"
        inside.append(found)
    own_terms: list[int] = []
    if isinstance(expr, Select):
        for own in conjuncts(expr.condition):
            holds = flow.where(own, True, points)
            match = next((n for n, each in enumerate(inside) if holds is not None and holds.is_equal(each)), None)
            if match is None:
                own_terms = []
                break
            own_terms.append(match)
    present = bool(own_terms)
    missing = [n for n, term in enumerate(terms) if n not in own_terms and selects(term)] if other is not None else []
    live = points
    for n in (*own_terms, *missing):
        live = live.intersect(inside[n])
    assert not present or isinstance(expr, Select)
    value = expr.then if present and isinstance(expr, Select) else expr
    new = _conditioned(value, deeper, selects, flow, live)
    if not missing and new is value:
        return expr
    condition = conjunction([terms[n] for n in sorted((*own_terms, *missing))])
    if condition is None:
        return new
    if present and isinstance(expr, Select):
        return Select(condition, new, expr.otherwise)
    assert other is not None
    return Select(condition, new, other)


def _needed(stage: EditedStage, axis: Axis, command: str) -> tuple[int, int]:
    """The first and last value of a reduction axis at which something is reduced.

    Raises PaddingError, with an instance, if they are the first and last of its range.
    """
    computation = stage.state.computation
    flow = Dataflow(stage.schedule, computation)
    domain = flow.domain().subtract(free_points(stage, computation))
    reduced = isl.Set.empty(flow.points.space)
    try:
        with limited_operations():
            for body in computation.bodies:
                assert isinstance(body, Reduce), f"{stage.name} has reduction axes and no reduction"
                unit = neutral_element(body.kind, body.dtype)
                inner = without_undef(body).children[0]
                for part, value in flow.parts(inner, domain):
                    if value != unit or not isinstance(value, int):
                        reduced = reduced.union(part)
    except TooManyOperationsError:
        raise ScheduleError(
            f"Cannot decide {command} on stage {stage.name} within {OPERATIONS_LIMIT} isl operations. Use fewer "
            "conditions.",
            kind="limit",
        ) from None
    position = flow.points.position[axis]
    if reduced.is_empty():
        return axis.start, axis.start
    low = int(reduced.dim_min_val(position).to_python())
    high = int(reduced.dim_max_val(position).to_python())
    if (low, high) == (axis.start, axis.stop - 1):
        at = reduced.lower_bound_val(SET, position, isl.Val(high))
        raise GuardRemoval(stage, lambda _: False, command, computation).refusal_of_taken(at, axis)
    return low, high


def _run_outside(stage: EditedStage, axis: Axis, first: int, last: int) -> bool:
    """Whether the conditions let instances run with an axis below ``first`` or above ``last``."""
    flow = Dataflow(stage.schedule, stage.state.computation)
    position = flow.points.position[axis]
    domain = flow.domain()
    before = domain.upper_bound_val(SET, position, isl.Val(first - 1))
    after = domain.lower_bound_val(SET, position, isl.Val(last + 1))
    for body in stage.state.computation.bodies:
        running = before.union(after)
        inner = body.children[0]
        while isinstance(inner, Select):
            holds = flow.where(inner.condition, True, running)
            unit = isinstance(inner.otherwise, Const | Undef)
            if holds is None or not unit:
                break
            running, inner = holds, inner.then
        if not running.is_empty():
            return True
    return False


def _restricted(state: StageState, axis: Axis, first: int, last: int) -> StageState:
    """The stage with conditions that keep an axis between two values."""
    terms: list[Expr] = []
    if first > axis.start:
        terms.append(Compare("ge", AxisRef(axis), Const(first, "index")))
    if last < axis.stop - 1:
        terms.append(Compare("lt", AxisRef(axis), Const(last + 1, "index")))
    condition = conjunction(terms)
    if condition is None:
        return state
    bodies: list[Expr] = []
    for body in state.computation.bodies:
        assert isinstance(body, Reduce)
        unit = Const(neutral_element(body.kind, body.dtype), body.dtype)
        bodies.append(Reduce(body.kind, Select(condition, body.body, unit), body.axes))
    return replace(state, computation=with_bodies(state.computation, tuple(bodies)))
