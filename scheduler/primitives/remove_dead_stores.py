"""``remove_dead_stores``: dead-element and dead-stage elimination."""

from dataclasses import replace

from lathe.frontend import Tensor
from lathe.frontend.arith.polyhedra import OPERATIONS_LIMIT, TooManyOperationsError, access_of, limited_operations
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Reduce, Select, Undef
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.legality.padding_dataflow import padded_cells
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.rewriting.padding import AddedCells, live_conditions
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.layout import TensorLayout
from lathe.scheduler.schedule_ir.stage import StageState


def remove_dead_stores(schedule: Edit) -> tuple[str, ...]:
    """Store no padding that is never read, whatever its contract, and compute no tensor that is never read.

    Before, with ``B`` laid out by ``[i // 4, i % 4]`` and ``pad_value=0``::

        for io in 0..4:
          for ii in 0..4:
            B[io, ii] = select(io * 4 + ii < 14, A[io * 4 + ii] + 1, 0)
        for i in 0..14:
          C[i] = B[i // 4, i % 4] * 2

    After ``s.remove_dead_stores()``::

        for io in 0..4:
          for ii in 0..4:
            B[io, ii] = A[io * 4 + ii] + 1 while 4*io + ii < 14
        for i in 0..14:
          C[i] = B[i // 4, i % 4] * 2

    From then on that padding must not be read. Outputs of the program keep theirs, and so does what ``overcompute`` has
    added. Returns the names of the tensors affected. RFC 0077's removal of no-ops and of stores of undef.
    """
    try:
        with limited_operations():
            return _removed(schedule)
    except TooManyOperationsError:
        raise ScheduleError(
            f"Cannot decide which stores are dead for remove_dead_stores within {OPERATIONS_LIMIT} isl operations. Use "
            "fewer conditions.",
            kind="limit",
        ) from None


def _removed(schedule: Edit) -> tuple[str, ...]:
    layouts = dict(schedule.layouts)
    changes: dict[EditedStage, StageState] = {}
    names: list[str] = []
    anchors = {schedule.at(stage.state.attachment) for stage in schedule.stages if stage.state.attachment is not None}
    stages = list(schedule.stages)
    for stage in reversed(schedule.stages):
        tensors = stage.state.tensors
        read = any(other is not stage and _reads(other, tensors) for other in stages)
        if not read and stage not in anchors and not set(tensors) & set(schedule.outputs):
            stages.remove(stage)
            names.append(stage.name)
            continue
        layout = layouts.get(stage.tensor)
        if layout is None or not layout.padding_count or set(tensors) & set(schedule.outputs):
            continue
        new_state, pads = _without_dead_padding(schedule, stage, layout)
        if new_state is not stage.state:
            changes[stage] = new_state
            layouts[stage.tensor] = replace(layout, pads=pads)
            names.append(stage.name)
    schedule.update(layouts=layouts)
    commit(schedule, changes, "remove_dead_stores", stages=stages)
    return tuple(names[::-1])


def _reads(stage: EditedStage, tensors: tuple[Tensor, ...]) -> bool:
    return any(read.tensor in tensors for read in stage.state.computation.reads)


def _without_dead_padding(
    schedule: Edit, stage: EditedStage, layout: "TensorLayout"
) -> "tuple[StageState, tuple[AddedCells | None, ...]]":
    """The stage without stores to padding that is never read, and the contracts that remain."""
    regions = [cells for cells, _ in padded_cells(layout.tensor.shape, layout.padded_maps)[1:]]
    padded = [n for n, pad in enumerate(layout.pads) if pad is not None]
    read = [
        access_of(consumer.state.computation, access).range().reset_tuple_id()
        for consumer in schedule.consumers(stage.tensor)
        for access in consumer.state.computation.reads
        if access.tensor is stage.tensor
    ]
    unread = [n for n, cells in zip(padded, regions, strict=True) if all(each.is_disjoint(cells) for each in read)]
    axes = stage.state.computation.axes
    conditions = live_conditions(layout.padded_maps, axes)[::-1]
    dead = {str(conditions[padded.index(n)][0]) for n in unread}
    (body,) = stage.state.computation.bodies
    inner = _undefined(body.body if isinstance(body, Reduce) else body, dead)
    if inner is (body.body if isinstance(body, Reduce) else body):
        return stage.state, layout.pads
    new = Reduce(body.kind, inner, body.axes) if isinstance(body, Reduce) else inner
    pads = tuple(
        AddedCells(pad.axes, None) if pad is not None and n in unread else pad for n, pad in enumerate(layout.pads)
    )
    return replace(stage.state, computation=replace(stage.state.computation, bodies=(new,))), pads


def _undefined(expr: Expr, dead: set[str]) -> Expr:
    """The expression, undefined where one of the ``dead`` conditions fails."""
    if not isinstance(expr, Select):
        return expr
    then = _undefined(expr.then, dead)
    undefined = str(expr.condition) in dead and not isinstance(expr.otherwise, Undef)
    if then is expr.then and not undefined:
        return expr
    return Select(expr.condition, then, Undef(expr.dtype) if undefined else expr.otherwise)
