"""Overcompute padding: compute undefined padding cells along with the others where that is harmless, else write zeros.

An instruction processes whole vectors, so the border of padding may run through a vector. A stage whose loops are
unscheduled computes its whole box if that reads defined values only (``overcompute``), and writes zeros to its padding
otherwise; a reduction runs on into zero padding so that its blocks are whole. Split loops keep their conditions.
"""

from contextlib import suppress
from dataclasses import replace

from lathe.frontend import Tensor
from lathe.frontend.arith.polyhedra import TooManyOperationsError, limited_operations
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.expr.arithmetic import neutral_element
from lathe.frontend.expr.expr_base import Expr, walk
from lathe.frontend.expr.nodes import Axis, Binary, Const, Reduce, Select, Undef
from lathe.scheduler.errors import PaddingError, ScheduleError
from lathe.scheduler.legality.flow_dependences import check_reads
from lathe.scheduler.legality.guard_removal import GuardRemoval
from lathe.scheduler.primitives.overcompute import with_extended_axis
from lathe.scheduler.rewriting.rewrite import transform
from lathe.scheduler.rewriting.undef import conjuncts
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.target.target import Target


def overcompute_padding(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Remove undefined values from computations, in place, and extend reductions into zero padding."""
    for stage in schedule.stages:
        if not stage.state.has_changed_loops:
            _overcompute(stage)
            if not schedule.attached(stage) and not stage.state.synchronised_leaves:
                _extend_reductions(stage)
        computation = stage.state.computation
        bodies = tuple(_without_undef(body) for body in computation.bodies)
        if any(new is not old for new, old in zip(bodies, computation.bodies, strict=True)):
            stage.change(computation=replace(computation, bodies=bodies))


def _extend_reductions(stage: EditedStage) -> None:
    """Extend reductions into the padding of their operands, where this adds only zeros, to make their blocks whole."""
    for root in stage.state.roots:
        axis = root.source
        if axis is None or axis.kind == "data" or axis.start:
            continue
        reads = stage.state.computation.reads
        extents = [
            _values_per_unit(index, axis) * extent
            for read in reads
            for index, extent in zip(read.indices, read.tensor.shape, strict=True)
        ]
        whole = max(extents, default=0)
        if whole <= axis.extent:
            continue
        before = stage.state
        try:
            with limited_operations():
                widened, _ = with_extended_axis(stage, before, root, whole, "build")
        except (PaddingError, TooManyOperationsError):
            continue
        stage.put(widened)
        if not _are_reads_legal(stage):
            stage.put(before)


def _are_reads_legal(stage: EditedStage) -> bool:
    """Whether all that a stage reads is defined: a tensor that is computed only in part has no padding there."""
    try:
        check_reads(stage.schedule, "build", {stage})
    except ScheduleError:
        return False
    return True


def _values_per_unit(index: Expr, axis: Axis) -> int:
    """The number of axis values per unit of an index: 1 for the axis, d for ``axis // d``, 0 for anything else."""
    if as_bare_axis(index) is axis:
        return 1
    match index:
        case Binary(op="floordiv", lhs=lhs, rhs=Const(value=value)) if as_bare_axis(lhs) is axis:
            return value
    return 0


def _overcompute(stage: EditedStage) -> None:
    """Compute the undefined cells of a stage along with the others, or write zeros to them."""
    state = stage.state
    selects = [node for body in state.computation.bodies for node in walk(body) if isinstance(node, Select)]
    terms = {id(term) for node in selects if isinstance(node.otherwise, Undef) for term in conjuncts(node.condition)}
    if not terms:
        return
    bodies: tuple[Expr, ...] | None = None
    if not any(_has_unwritten_cells(stage.schedule, read.tensor) for read in state.computation.reads):
        branches = GuardRemoval(stage, lambda term: id(term) in terms, "build", state.computation)
        with suppress(PaddingError, TooManyOperationsError), limited_operations():
            bodies = branches.bodies()
    if bodies is not None:
        stage.put(replace(state, computation=replace(state.computation, bodies=bodies)))
        if _are_reads_legal(stage):
            return
    bodies = tuple(_without_undef(body, everywhere=True) for body in state.computation.bodies)
    stage.put(replace(state, computation=replace(state.computation, bodies=bodies)))


def _has_unwritten_cells(schedule: Edit, tensor: Tensor) -> bool:
    """Whether a scratchpad tensor has cells that are never written, as its producer has kept the loops' conditions."""
    producer = schedule.producer(tensor)
    if producer is None or producer.state.scope == DRAM:
        return False
    bodies = producer.state.computation.bodies
    return any(isinstance(body, Select) and isinstance(body.otherwise, Undef) for body in bodies)


def _without_undef(body: Expr, *, everywhere: bool = False) -> Expr:
    """The body with undefined values replaced by 0, or by the neutral value in a reduction.

    Cells for which the whole body is undefined are not computed and stay so, unless ``everywhere``.
    """
    if isinstance(body, Reduce):
        inner = _replace_undef(body.body, neutral_element(body.kind, body.dtype), everywhere)
        return body if inner is body.body else Reduce(body.kind, inner, body.axes)
    return _replace_undef(body, 0, everywhere)


def _replace_undef(expr: Expr, value: int, everywhere: bool) -> Expr:
    if not everywhere and isinstance(expr, Select) and isinstance(expr.otherwise, Undef):
        then = _replace_undef(expr.then, value, everywhere)
        return expr if then is expr.then else Select(expr.condition, then, expr.otherwise)
    if not any(isinstance(node, Undef) for node in walk(expr)):
        return expr
    return transform(expr, lambda node: Const(value, node.dtype) if isinstance(node, Undef) else None)
