"""``remove_dead_stores``: what nobody reads is not stored."""

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
    """Store no padding that nobody reads, whatever its contract says, and compute no tensor that nobody reads.

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

    From then on nothing may read that padding. Outputs of the program keep theirs, since others may rely on it; what an
    ``overcompute`` computes there, it has been asked for. Returns the names of the tensors that are stored less of.
    RFC 0077's removal of no-ops and of stores of undef.
    """
    try:
        with limited_operations():
            return _removed(schedule)
    except TooManyOperationsError:
        raise ScheduleError(
            f"remove_dead_stores must be decided within {OPERATIONS_LIMIT} isl operations, and takes more.",
            kind="limit",
        ) from None


def _removed(schedule: Edit) -> tuple[str, ...]:
    layouts = dict(schedule.layouts)
    changes: dict[EditedStage, StageState] = {}
    names: list[str] = []
    hosts = {schedule.at(stage.state.attachment) for stage in schedule.stages if stage.state.attachment is not None}
    stages = list(schedule.stages)
    for stage in reversed(schedule.stages):
        tensors = stage.state.tensors
        read = any(other is not stage and _reads(other, tensors) for other in stages)
        if not read and stage not in hosts and not set(tensors) & set(schedule.outputs):
            stages.remove(stage)
            names.append(stage.name)
            continue
        layout = layouts.get(stage.tensor)
        if layout is None or not layout.padding_count or set(tensors) & set(schedule.outputs):
            continue
        kept, pads = _without_unread(schedule, stage, layout)
        if kept is not stage.state:
            changes[stage] = kept
            layouts[stage.tensor] = replace(layout, pads=pads)
            names.append(stage.name)
    schedule.update(layouts=layouts)
    commit(schedule, changes, "remove_dead_stores", stages=stages)
    return tuple(names[::-1])


def _reads(stage: EditedStage, tensors: tuple[Tensor, ...]) -> bool:
    return any(read.tensor in tensors for read in stage.state.computation.reads)


def _without_unread(
    schedule: Edit, stage: EditedStage, layout: "TensorLayout"
) -> "tuple[StageState, tuple[AddedCells | None, ...]]":
    """The stage without what it stores to padding that nobody reads, and the contracts that remain."""
    regions = [cells for cells, _ in padded_cells(layout.tensor.shape, layout.padded_maps)[1:]]
    padded = [n for n, pad in enumerate(layout.pads) if pad is not None]
    read = [
        access_of(reader.state.computation, access).range().reset_tuple_id()
        for reader in schedule.readers(stage.tensor)
        for access in reader.state.computation.reads
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
    """The expression undefined where one of some conditions fails, instead of having another value there."""
    if not isinstance(expr, Select):
        return expr
    then = _undefined(expr.then, dead)
    gone = str(expr.condition) in dead and not isinstance(expr.otherwise, Undef)
    if then is expr.then and not gone:
        return expr
    return Select(expr.condition, then, Undef(expr.dtype) if gone else expr.otherwise)
