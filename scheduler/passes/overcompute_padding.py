"""Padding on which nobody relies, on the machine: computed along with the rest, where nothing forbids it.

An instruction works on whole elements, so the border of padding may run through one. A stage whose loops are left to
``build`` computes its whole box if what that reads may be read (``overcompute``), and zeros there otherwise; a sum goes
on into zeros that make its blocks whole. Loops that a schedule has cut keep their conditions.
"""

from contextlib import suppress
from dataclasses import replace

from lathe.frontend import Tensor
from lathe.frontend.arith.polyhedra import TooManyOperationsError, limited_operations
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.expr.arithmetic import neutral
from lathe.frontend.expr.expr_base import Expr, walk
from lathe.frontend.expr.nodes import Axis, Binary, Const, Reduce, Select, Undef
from lathe.scheduler.errors import PaddingError, ScheduleError
from lathe.scheduler.legality.flow_dependences import check_reads
from lathe.scheduler.legality.guard_removal import Branches
from lathe.scheduler.primitives.overcompute import extended
from lathe.scheduler.rewriting.rewrite import transform
from lathe.scheduler.rewriting.undef import terms_of
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.target.target import Target


def overcompute_padding(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Rewrite, in place, the stages of a schedule that leave cells undefined, and let open sums go on into zeros."""
    for stage in schedule.stages:
        if not stage.state.is_touched:
            _fill(stage)
            if not schedule.attached(stage) and not stage.state.kept_leaves:
                _widen(stage)
        computation = stage.state.computation
        bodies = tuple(_zeros(body) for body in computation.bodies)
        if any(new is not old for new, old in zip(bodies, computation.bodies, strict=True)):
            stage.change(computation=replace(computation, bodies=bodies))


def _widen(stage: EditedStage) -> None:
    """Let reductions go on into the padding of what they read where it changes nothing: so blocks are whole."""
    for root in stage.state.roots:
        axis = root.source
        if axis is None or axis.kind == "data" or axis.start:
            continue
        reads = stage.state.computation.reads
        over = [
            _reach(index, axis) * extent
            for read in reads
            for index, extent in zip(read.indices, read.tensor.shape, strict=True)
        ]
        whole = max(over, default=0)
        if whole <= axis.extent:
            continue
        before = stage.state
        try:
            with limited_operations():
                widened, _ = extended(stage, before, root, whole, "build")
        except (PaddingError, TooManyOperationsError):
            continue
        stage.put(widened)
        if not _finds_what_it_reads(stage):
            stage.put(before)


def _finds_what_it_reads(stage: EditedStage) -> bool:
    """Whether all that a stage reads now is made: what is made in part has no padding there."""
    try:
        check_reads(stage.schedule, "build", {stage})
    except ScheduleError:
        return False
    return True


def _reach(index: Expr, axis: Axis) -> int:
    """How many values of an axis one step of an index stands for that is the axis, or the axis divided; else 0."""
    if as_bare_axis(index) is axis:
        return 1
    match index:
        case Binary(op="floordiv", lhs=lhs, rhs=Const(value=value)) if as_bare_axis(lhs) is axis:
            return value
    return 0


def _fill(stage: EditedStage) -> None:
    """Compute cells on which nobody relies, too, or put zeros there."""
    state = stage.state
    selects = [node for body in state.computation.bodies for node in walk(body) if isinstance(node, Select)]
    known = {id(term) for node in selects if isinstance(node.otherwise, Undef) for term in terms_of(node.condition)}
    if not known:
        return
    bodies: tuple[Expr, ...] | None = None
    if not any(_stays_blank(stage.schedule, read.tensor) for read in state.computation.reads):
        branches = Branches(stage, lambda term: id(term) in known, "build", state.computation)
        with suppress(PaddingError, TooManyOperationsError), limited_operations():
            bodies = branches.bodies()
    if bodies is not None:
        stage.put(replace(state, computation=replace(state.computation, bodies=bodies)))
        if _finds_what_it_reads(stage):
            return
    bodies = tuple(_zeros(body, everywhere=True) for body in state.computation.bodies)
    stage.put(replace(state, computation=replace(state.computation, bodies=bodies)))


def _stays_blank(schedule: Edit, tensor: Tensor) -> bool:
    """Whether cells of a tensor in a scratchpad are never written: its maker has kept the conditions of its loops."""
    maker = schedule.maker(tensor)
    if maker is None or maker.state.scope == DRAM:
        return False
    bodies = maker.state.computation.bodies
    return any(isinstance(body, Select) and isinstance(body.otherwise, Undef) for body in bodies)


def _zeros(body: Expr, *, everywhere: bool = False) -> Expr:
    """The body with zeros, or what changes nothing in a reduction, for undefined values.

    Cells that the whole body leaves undefined stay so, unless it is to be ``everywhere``: those are not computed.
    """
    if isinstance(body, Reduce):
        inner = _filled(body.body, neutral(body.kind, body.dtype), everywhere)
        return body if inner is body.body else Reduce(body.kind, inner, body.axes)
    return _filled(body, 0, everywhere)


def _filled(expr: Expr, value: int, everywhere: bool) -> Expr:
    if not everywhere and isinstance(expr, Select) and isinstance(expr.otherwise, Undef):
        then = _filled(expr.then, value, everywhere)
        return expr if then is expr.then else Select(expr.condition, then, expr.otherwise)
    if not any(isinstance(node, Undef) for node in walk(expr)):
        return expr
    return transform(expr, lambda node: Const(value, node.dtype) if isinstance(node, Undef) else None)
