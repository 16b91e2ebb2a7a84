"""Legalise domains: compute the bounding box of each domain predicate (``where``); outputs are 0 where it is false.

An instruction computes whole vectors, so the border of a domain may run through a vector. An intermediate stage
computes its whole bounding box if that reads nothing out of bounds. An output becomes ``select(where, value, 0)``,
which partitioning, the zero padding of LOAD, or masks (``if_convert.py``) implement.
"""

from dataclasses import replace

from lathe.frontend import Axis, Computation, Tensor, interval, substitute
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.expr.arithmetic import neutral_element
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Const, Read, Reduce, Select
from lathe.scheduler.errors import BuildError
from lathe.scheduler.loop_ir.split_map_by_axis_kind import has_all_points, relations_by_kind
from lathe.scheduler.primitives.stage_through_acc import distribute_sync, stage_through_acc
from lathe.scheduler.rewriting.rewrite import copy_of, redirect_reads, with_new_axes
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.loops import AffineSchedule, LoopAxis, Relation
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageState, initial_state
from lathe.scheduler.target.target import Target


def legalize_domains(schedule: Edit, target: Target) -> None:
    """Remove domain predicates, in place, and then the stages that only these predicates have read."""
    consumed = {access.tensor for stage in schedule.stages for access in stage.state.computation.reads}
    _remove_domains(schedule, target)
    _remove_dead_stages(schedule, consumed)


def _remove_domains(schedule: Edit, target: Target) -> None:
    """Rewrite, in place, the stages of a schedule that have a domain predicate.

    Raises BuildError for an output that is a max or min reduction with other stages in its reduction loops, and for a
    stage that is stored in a buffer of the user's.
    """
    for stage in list(schedule.stages):
        computation = stage.state.computation
        if computation.where is None:
            continue
        if stage.state.storage is not None:
            raise BuildError(
                f"Cannot store {stage.name} in {stage.state.storage} on a machine: it is defined only where "
                f"{computation.where}, the machine computes its whole bounding box, and cells of elements outside the "
                "domain may be shared with elements inside. Leave out store_in.",
                kind="limit",
            )
        if any(tensor in schedule.outputs for tensor in stage.state.tensors):
            _fill_output(schedule, target, stage)
        elif _reads_in_bounds(computation):
            stage.change(computation=replace(computation, where=None))
        else:
            stage.change(computation=_predicated(computation))


def _reads_in_bounds(computation: Computation) -> bool:
    """Whether all reads are in bounds at every point of the box, even where a condition around them is false."""
    return all(
        low >= 0 and high < extent
        for read in computation.reads
        for (low, high), extent in zip(map(interval, read.indices), read.tensor.shape, strict=True)
    )


def _predicated(computation: Computation) -> Computation:
    """The computation of the whole box: 0 outside the domain, or the neutral value in a reduction."""
    where = computation.where
    assert where is not None
    bodies: list[Expr] = []
    for body in computation.bodies:
        if isinstance(body, Reduce):
            identity = Const(neutral_element(body.kind, body.dtype), body.dtype)
            bodies.append(Reduce(body.kind, Select(where, body.body, identity), body.axes))
        else:
            bodies.append(Select(where, body, Const(0, body.dtype)))
    return replace(computation, bodies=tuple(bodies), where=None)


def _fill_output(schedule: Edit, target: Target, stage: EditedStage) -> None:
    computation = stage.state.computation
    producer = _copy_source(schedule, target, stage)
    for each in (stage, producer):
        if each is not None:
            _check_time_map(each, stage)
    if producer is not None:
        _zero_fill_source(schedule, target, producer, stage)
        return
    if not computation.reduce_axes:
        stage.change(computation=_predicated(computation))
        return
    if _can_split_reduction(schedule, stage):
        loop = _innermost_attached_loop(schedule, stage)
        if loop is not None:
            _reduce_in_acc(schedule, target, stage, loop)
        else:
            _split_reduction(schedule, stage)
        return
    kind = next((body.kind for body in computation.bodies if isinstance(body, Reduce) and body.kind != "sum"), None)
    if kind is not None:
        raise BuildError(
            f"Cannot fill output {stage.name} with zeros outside its domain ({computation.where}) on a machine: it is "
            f"a {kind} reduction, and other stages are computed in its reduction loops, so no separate stage can "
            "select the zeros. Call cache_write first, and compute those stages in the loops of the copy in acc.",
            kind="limit",
        )
    stage.change(computation=_predicated(computation))


def _check_time_map(stage: EditedStage, output: EditedStage) -> None:
    """Raises BuildError where a map of set_schedule does not cover the bounding box, which zeros must fill."""
    if not all(has_all_points(each) for each in stage.state.relations if isinstance(each, AffineSchedule)):
        raise BuildError(
            f"Cannot fill output {output.name} with zeros outside its domain ({output.state.computation.where}) on a "
            f"machine: the map that set_schedule has given {stage.name} has times for the domain only. Give a map "
            "with a time of its own for each element of the bounding box.",
            kind="limit",
        )


def _copy_source(schedule: Edit, target: Target, stage: EditedStage) -> EditedStage | None:
    """The stage in acc that a DRAM stage copies element by element; None if it is no such copy."""
    computation = stage.state.computation
    body = computation.bodies[0]
    if stage.state.scope != DRAM or not isinstance(body, Read) or len(body.indices) != len(computation.axes):
        return None
    if any(as_bare_axis(index) is not axis for index, axis in zip(body.indices, computation.axes, strict=True)):
        return None
    producer = schedule.producer(body.tensor)
    return producer if producer is not None and producer.state.scope == target.acc.name else None


def _zero_fill_source(schedule: Edit, target: Target, producer: EditedStage, stage: EditedStage) -> None:
    """Select the zeros of an output in the acc stage that it copies, since a STORE cannot select."""
    computation, made = stage.state.computation, producer.state
    points: dict[Axis, Expr] = {
        old: AxisRef(new) for old, new in zip(computation.axes, made.computation.axes, strict=True)
    }
    assert computation.where is not None
    where = substitute(computation.where, points)
    whole = replace(computation, where=None)
    if not made.computation.reduce_axes and len(schedule.consumers(made.tensor)) == 1:
        producer.put(replace(made, computation=_predicated(replace(made.computation, where=where))))
    else:
        name = fresh_name(schedule, f"{made.tensor.name}.filled")
        copy = replace(copy_of(made.tensor, made.computation.name, made.computation.axes, whole=True), where=where)
        filled = initial_state(with_new_axes(_predicated(copy), name), target.acc.name)
        inner = schedule.new(replace(filled, attachment=made.attachment))
        schedule.insert(inner, behind=producer)
        whole = redirect_reads(whole, {made.tensor: inner.tensor})
    stage.change(computation=whole)


def _can_split_reduction(schedule: Edit, stage: EditedStage) -> bool:
    """Whether the reduction can be split off into a stage of its own: nothing depends on its loops being one nest."""
    places = [each.state.attachment for each in schedule.attached(stage)]
    inside = any(place is not None and place.axis.kind == "reduce" for place in places)
    return not inside and stage.state.pragma is None and len(stage.state.tensors) == 1


def _innermost_attached_loop(schedule: Edit, stage: EditedStage) -> LoopAxis | None:
    """The innermost data loop that other stages, queue commands or threads need; None if there is none."""
    places = [guest.state.attachment for guest in schedule.attached(stage)]
    leaves, kept = stage.state.leaves, stage.state.synchronised_leaves
    used = [leaf for leaf in leaves if leaf in kept or any(place and place.axis is leaf for place in places)]
    around = leaves[: leaves.index(used[-1]) + 1] if used else ()
    return next((leaf for leaf in reversed(around) if leaf.kind == "data"), None)


def _reduce_in_acc(schedule: Edit, target: Target, stage: EditedStage, loop: LoopAxis) -> None:
    """Reduce in acc, in the loop where the operands of the reduction are computed, and select the zeros there, too."""
    given, where = stage.state, stage.state.computation.where
    _, writer = stage_through_acc(schedule, stage)
    inside = distribute_sync(given, stage, writer)
    loop = stage.state.leaves[max(stage.state.leaves.index(loop), inside - 1)]
    reduction = writer.state.computation
    whole = replace(reduction, where=None) if _reads_in_bounds(reduction) else _predicated(reduction)
    writer.change(computation=whole, attachment=ComputeAt(stage.id, loop))
    stage.change(computation=replace(stage.state.computation, where=where))
    _zero_fill_source(schedule, target, writer, stage)


def _split_reduction(schedule: Edit, stage: EditedStage) -> None:
    """Split a stage into a reduction, which keeps the reduction loops, and a selection, which keeps the data loops."""
    state = stage.state
    computation = state.computation
    reduction = with_new_axes(computation, fresh_name(schedule, f"{state.tensor.name}.whole"))
    reduction = replace(reduction, where=None) if _reads_in_bounds(computation) else _predicated(reduction)
    reducer = initial_state(reduction)
    reducing, selecting = relations_by_kind(stage)
    if reducing or any(leaf.kind == "reduce" for leaf in state.synchronised_leaves):
        own = tuple(root for root in reducer.roots if root.kind == "data")
        roots = tuple(root for root in state.roots if root.kind == "reduce")
        loops = tuple(leaf for leaf in state.leaves if leaf.kind == "reduce")
        reducer = replace(reducer, roots=(*own, *roots), leaves=(*own, *loops), relations=reducing or ())
    inner = schedule.new(replace(reducer, vector_layout=state.vector_layout, on_alu=state.on_alu))
    stage.put(_select_only(state, inner.tensor, selecting))
    distribute_sync(state, stage, inner)
    schedule.insert(inner, before=stage)


def _select_only(state: StageState, value: Tensor, relations: tuple[Relation, ...]) -> StageState:
    """The stage that selects between zeros and the result of the reduction ``value``."""
    computation = state.computation
    body = Read(value, tuple(AxisRef(axis) for axis in computation.axes))
    selecting = _predicated(replace(computation, bodies=(body,), reduce_axes=()))
    return replace(
        state,
        computation=selecting,
        roots=tuple(root for root in state.roots if root.kind == "data"),
        leaves=tuple(leaf for leaf in state.leaves if leaf.kind == "data"),
        relations=relations,
    )


def _remove_dead_stages(schedule: Edit, consumed: set[Tensor]) -> None:
    """Remove, in place, stages of tensors in ``consumed`` that no stage reads any more."""

    while True:
        dead = [
            stage
            for stage in schedule.stages
            if consumed.issuperset(stage.state.tensors)
            and not any(schedule.consumers(tensor) or tensor in schedule.outputs for tensor in stage.state.tensors)
            and not schedule.attached(stage)
        ]
        if not dead:
            return
        schedule.reorder_stages([stage for stage in schedule.stages if stage not in dead])
