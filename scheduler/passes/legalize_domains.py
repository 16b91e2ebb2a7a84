"""Domains that are no boxes, on the machine: an output gets zeros where it has no elements, anything else a whole box.

An element of the machine has lanes, and an instruction works on all of them, so a domain's border may run through
elements. Where nobody reads, it does not matter what is computed, as long as that reads nothing outside of tensors:
a stage between others computes the box. A stage whose values leave the program computes ``select(where, value, 0)``,
which partitioning, the DMA's zeros, and masks (``if_convert.py``) know how to carry out.
"""

from dataclasses import replace

from lathe.frontend import Axis, Computation, Tensor, interval, substitute
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.expr.arithmetic import neutral
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Const, Read, Reduce, Select
from lathe.scheduler.errors import BuildError
from lathe.scheduler.loop_ir.split_map_by_axis_kind import has_all_points, relations_by_kind
from lathe.scheduler.primitives.stage_through_acc import keep_loops, write_through_acc
from lathe.scheduler.rewriting.rewrite import copy_of, redirect_reads, renamed_axes
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.loops import AffineSchedule, LoopAxis, Relation
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageState, initial_state
from lathe.scheduler.schedule_ir.unique_names import fresh_name
from lathe.scheduler.target.target import Target


def legalize_domains(schedule: Edit, target: Target) -> None:
    """Take conditions off domains, in place, and stages out that are read no more once these are gone."""
    read = {access.tensor for stage in schedule.stages for access in stage.state.computation.reads}
    _fill(schedule, target)
    _leave_out_unread(schedule, read)


def _fill(schedule: Edit, target: Target) -> None:
    """Rewrite, in place, the stages of a schedule that have a condition on their domain.

    Raises BuildError for an output that is a maximum or minimum with loops that compute other stages, and for a stage
    whose values are stored in shared cells.
    """
    for stage in list(schedule.stages):
        computation = stage.state.computation
        if computation.where is None:
            continue
        if stage.state.storage is not None:
            raise BuildError(
                f"stage {stage.name} must be defined everywhere to be stored in {stage.state.storage} on a machine, "
                f"not where {computation.where} only: the machine computes whole boxes, and cells of elements that do "
                "not exist may be shared with others that do. Leave out store_in.",
                kind="limit",
            )
        if any(tensor in schedule.outputs for tensor in stage.state.tensors):
            _fill_output(schedule, target, stage)
        elif _stays_inside(computation):
            stage.change(computation=replace(computation, where=None))
        else:
            stage.change(computation=_selected(computation))


def _stays_inside(computation: Computation) -> bool:
    """Whether no read leaves its tensor at any point of the box, whatever conditions around it say."""
    return all(
        low >= 0 and high < extent
        for read in computation.reads
        for (low, high), extent in zip(map(interval, read.indices), read.tensor.shape, strict=True)
    )


def _selected(computation: Computation) -> Computation:
    """The computation of the whole box: 0, or what changes nothing in a reduction, outside the domain."""
    where = computation.where
    assert where is not None
    bodies: list[Expr] = []
    for body in computation.bodies:
        if isinstance(body, Reduce):
            nothing = Const(neutral(body.kind, body.dtype), body.dtype)
            bodies.append(Reduce(body.kind, Select(where, body.body, nothing), body.axes))
        else:
            bodies.append(Select(where, body, Const(0, body.dtype)))
    return replace(computation, bodies=tuple(bodies), where=None)


def _fill_output(schedule: Edit, target: Target, stage: EditedStage) -> None:
    computation = stage.state.computation
    maker = _copied_from(schedule, target, stage)
    for each in (stage, maker):
        if each is not None:
            _check_times(each, stage)
    if maker is not None:
        _fill_before(schedule, target, maker, stage)
        return
    if not computation.reduce_axes:
        stage.change(computation=_selected(computation))
        return
    if _can_come_apart(schedule, stage):
        loop = _innermost_used(schedule, stage)
        if loop is not None:
            _make_in_loop(schedule, target, stage, loop)
        else:
            _take_apart(schedule, stage)
        return
    kind = next((body.kind for body in computation.bodies if isinstance(body, Reduce) and body.kind != "sum"), None)
    if kind is not None:
        raise BuildError(
            f"output {stage.name} with a domain ({computation.where}) must be no {kind} for the machine while other "
            f"stages are computed in its reduction loops: it has zeros elsewhere, which no {kind} gives. Call "
            "cache_write first, and compute them in the loops of the copy in acc.",
            kind="limit",
        )
    stage.change(computation=_selected(computation))


def _check_times(stage: EditedStage, output: EditedStage) -> None:
    """Raises BuildError where the loops of a stage, by a map of the user's, do not come to what zeros have to fill."""
    if not all(has_all_points(each) for each in stage.state.relations if isinstance(each, AffineSchedule)):
        raise BuildError(
            f"times of stage {stage.name} must be for all elements of its box, to fill output {output.name} with zeros "
            f"outside its domain ({output.state.computation.where}) on a machine, not for the domain only, as "
            "set_schedule has given them. Give a map that has a time of its own for each element.",
            kind="limit",
        )


def _copied_from(schedule: Edit, target: Target, stage: EditedStage) -> EditedStage | None:
    """The stage where results are computed of whose elements a stage in DRAM is a copy, if it is one."""
    computation = stage.state.computation
    body = computation.bodies[0]
    if stage.state.scope != DRAM or not isinstance(body, Read) or len(body.indices) != len(computation.axes):
        return None
    if any(as_bare_axis(index) is not axis for index, axis in zip(body.indices, computation.axes, strict=True)):
        return None
    maker = schedule.maker(body.tensor)
    return maker if maker is not None and maker.state.scope == target.near.name else None


def _fill_before(schedule: Edit, target: Target, maker: EditedStage, stage: EditedStage) -> None:
    """Let what an output is copied from have the zeros: a store selects nothing."""
    computation, made = stage.state.computation, maker.state
    points: dict[Axis, Expr] = {
        old: AxisRef(new) for old, new in zip(computation.axes, made.computation.axes, strict=True)
    }
    assert computation.where is not None
    where = substitute(computation.where, points)
    whole = replace(computation, where=None)
    if not made.computation.reduce_axes and len(schedule.readers(made.tensor)) == 1:
        maker.put(replace(made, computation=_selected(replace(made.computation, where=where))))
    else:
        name = fresh_name(schedule, f"{made.tensor.name}.filled")
        copy = replace(copy_of(made.tensor, made.computation.name, made.computation.axes, whole=True), where=where)
        filled = initial_state(renamed_axes(_selected(copy), name), target.near.name)
        inner = schedule.new(replace(filled, attachment=made.attachment))
        schedule.insert(inner, behind=maker)
        whole = redirect_reads(whole, {made.tensor: inner.tensor})
    stage.change(computation=whole)


def _can_come_apart(schedule: Edit, stage: EditedStage) -> bool:
    """Whether the reduction of a stage can be a stage of its own: nothing relies on its loops being one nest."""
    places = [each.state.attachment for each in schedule.attached(stage)]
    inside = any(place is not None and place.axis.kind == "reduce" for place in places)
    return not inside and stage.state.pragma is None and len(stage.state.tensors) == 1


def _innermost_used(schedule: Edit, stage: EditedStage) -> LoopAxis | None:
    """The innermost data loop of a stage that others are computed in, or share, or that is around a signal or threads.

    None where none is.
    """
    places = [guest.state.attachment for guest in schedule.attached(stage)]
    leaves, kept = stage.state.leaves, stage.state.kept_leaves
    used = [leaf for leaf in leaves if leaf in kept or any(place and place.axis is leaf for place in places)]
    around = leaves[: leaves.index(used[-1]) + 1] if used else ()
    return next((leaf for leaf in reversed(around) if leaf.kind == "data"), None)


def _make_in_loop(schedule: Edit, target: Target, stage: EditedStage, loop: LoopAxis) -> None:
    """Reduce in acc, in the loop where others make what the reduction reads, and select there what is stored."""
    given, where = stage.state, stage.state.computation.where
    _, writer = write_through_acc(schedule, stage)
    inside = keep_loops(given, stage, writer)
    loop = stage.state.leaves[max(stage.state.leaves.index(loop), inside - 1)]
    reduction = writer.state.computation
    whole = replace(reduction, where=None) if _stays_inside(reduction) else _selected(reduction)
    writer.change(computation=whole, attachment=ComputeAt(stage.id, loop))
    stage.change(computation=replace(stage.state.computation, where=where))
    _fill_before(schedule, target, writer, stage)


def _take_apart(schedule: Edit, stage: EditedStage) -> None:
    """A reduction, which keeps the loops over reduction axes, and the selection of its elements with the others."""
    state = stage.state
    computation = state.computation
    reduction = renamed_axes(computation, fresh_name(schedule, f"{state.tensor.name}.whole"))
    reduction = replace(reduction, where=None) if _stays_inside(computation) else _selected(reduction)
    first = initial_state(reduction)
    reducing, selecting = relations_by_kind(stage)
    if reducing or any(leaf.kind == "reduce" for leaf in state.kept_leaves):
        own = tuple(root for root in first.roots if root.kind == "data")
        roots = tuple(root for root in state.roots if root.kind == "reduce")
        loops = tuple(leaf for leaf in state.leaves if leaf.kind == "reduce")
        first = replace(first, roots=(*own, *roots), leaves=(*own, *loops), relations=reducing or ())
    inner = schedule.new(replace(first, lanes=state.lanes, on_alu=state.on_alu))
    stage.put(_without_reduction(state, inner.tensor, selecting))
    keep_loops(state, stage, inner)
    schedule.insert(inner, before=stage)


def _without_reduction(state: StageState, value: Tensor, relations: tuple[Relation, ...]) -> StageState:
    """The stage that only selects what another has reduced."""
    computation = state.computation
    body = Read(value, tuple(AxisRef(axis) for axis in computation.axes))
    selecting = _selected(replace(computation, bodies=(body,), reduce_axes=()))
    return replace(
        state,
        computation=selecting,
        roots=tuple(root for root in state.roots if root.kind == "data"),
        leaves=tuple(leaf for leaf in state.leaves if leaf.kind == "data"),
        relations=relations,
    )


def _leave_out_unread(schedule: Edit, read: set[Tensor]) -> None:
    """Take out, in place, stages that somebody has read and nobody does any more, as a condition that is gone did."""
    while True:
        gone = [
            stage
            for stage in schedule.stages
            if read.issuperset(stage.state.tensors)
            and not any(schedule.readers(tensor) or tensor in schedule.outputs for tensor in stage.state.tensors)
            and not schedule.attached(stage)
        ]
        if not gone:
            return
        schedule.reorder_stages([stage for stage in schedule.stages if stage not in gone])
