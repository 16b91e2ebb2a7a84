"""``overcompute``: instances that conditions exclude run, too, where that changes no result."""

from dataclasses import replace
from types import MappingProxyType

import islpy as isl

from lathe.frontend import Axis, Computation
from lathe.frontend.arith.polyhedra import OPERATIONS_LIMIT, TooManyOperationsError, limited_operations
from lathe.frontend.arith.simplify import simplified_index
from lathe.frontend.arith.substitution import substitute
from lathe.frontend.expr.arithmetic import neutral_element
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Const, Reduce
from lathe.scheduler.errors import PaddingError, PaddingWitness, ScheduleError
from lathe.scheduler.legality.guard_removal import GuardRemoval, mentions, roots_under, with_bodies
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.rewriting.rewrite import rewrite_indices
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike, LoopAxis, Split, replaced_loops, with_loops
from lathe.scheduler.schedule_ir.stage import StageState


def overcompute(stage: EditedStage, axis: "AxisLike | None" = None) -> None:
    """Also run the instances that conditions on a loop (on any loop, without ``axis``) exclude: no branch, more work.

    Such conditions come from layouts with padding, splits with a remainder, and selects over loops. Before, with ``A``
    laid out by ``[i, j // 4, j % 4]`` and ``pad_value=0``, and ``j`` split by 4::

        for i in 0..16:
          B[i] = 0
          for jo in 0..4:
            for ji in 0..4:
              B[i] += A[i, (4*jo + ji) // 4, (4*jo + ji) % 4] while 4*jo + ji < 14

    After ``s[B].overcompute(ji)``::

        for i in 0..16:
          B[i] = 0
          for jo in 0..4:
            for ji in 0..4:
              B[i] += A[i, (4*jo + ji) // 4, (4*jo + ji) % 4]

    Legal iff no added instance changes a value that is relied on: in a reduction it must contribute the neutral value
    (0 in a sum, 1 in a product, the minimum of the dtype in a maximum); for a padding cell it must compute the value of
    its contract, or any if that is ``undef`` or absent. It may read padding that a contract allows to be read, and the
    proof uses the contracts. ``branch`` is the inverse.

    Raises PaddingError, with an instance and the cells it reads, if it is not legal; ScheduleError for a loop of
    another stage or without conditions. RFC 0077's remove_branching_through_overcompute.
    """
    try:
        with limited_operations():
            new, renamed = without_guards(stage, roots_under(stage, axis, "overcompute"), "overcompute")
    except TooManyOperationsError:
        raise ScheduleError(
            f"Cannot decide overcompute on stage {stage.name} within {OPERATIONS_LIMIT} isl operations. Use fewer "
            "conditions.",
            kind="limit",
        ) from None
    if new is stage.state and not stage.schedule.replaying:
        of = "" if axis is None else f"loop {stage.find(axis, 'overcompute').name} of "
        besides = "" if new.computation.where is None else " besides where=, which defines its domain"
        raise ScheduleError(
            f"Cannot overcompute {of}stage {stage.name}: it has no affine condition on its loops{besides}. Such "
            "conditions come from layouts with padding, splits with a remainder, and select.",
            kind="argument",
        )
    commit(stage.schedule, {stage: new}, "overcompute", renamed=renamed)


def without_guards(stage: EditedStage, axes: set[Axis], command: str) -> "tuple[StageState, dict[LoopAxis, LoopAxis]]":
    """The stage without conditions on some axes; the same state if there are none. Raises PaddingError."""
    state = stage.state
    branches = GuardRemoval(stage, mentions(axes), command, state.computation)
    bodies = branches.bodies()
    renamed: dict[LoopAxis, LoopAxis] = {}
    if branches.removed:
        state = replace(state, computation=_simplified(with_bodies(state.computation, bodies)))
    for root in state.roots:
        if root.source in axes:
            new_extent = covered_extent(stage, root, command)
            if new_extent is not None and root.source is not None and new_extent > root.source.extent:
                state, loops = with_extended_axis(stage, state, root, new_extent, command)
                renamed |= loops
    return state, renamed


def covered_extent(stage: EditedStage, root: LoopAxis, command: str) -> int | None:
    """The number of values of an axis that its loops would cover without the conditions of splits; None: unchanged."""
    extents = place_stages(stage.schedule)[stage].loops.extents
    if stage.state.attachment is not None and not stage.state.attachment.loops and root.kind == "data":
        return None  # the loops run over the region that is read

    def size(loop: LoopAxis) -> int:
        relation = next((each for each in stage.state.relations if loop in replaced_loops(each)), None)
        if relation is None:
            return extents[loop]
        if not isinstance(relation, Split):
            raise ScheduleError(
                f"loops of axis {root.name} of stage {stage.name} must all be created by split for {command}, not by "
                f"{type(relation).__name__.lower()}. Call {command} first.",
                kind="limit",
            )
        factor = relation.factor if relation.factor is not None else size(relation.inner)
        inner = size(relation.inner)
        if inner > factor:
            raise ScheduleError(
                f"inner splits of axis {root.name} of stage {stage.name} must leave no remainder for {command}, but "
                f"those of {relation.inner.name} cover {inner} iterations instead of {factor}. Split by a factor that "
                f"divides {factor}.",
                kind="limit",
            )
        return size(relation.outer) * factor

    return size(root)


def with_extended_axis(
    stage: EditedStage, state: StageState, root: LoopAxis, new_extent: int, command: str
) -> tuple[StageState, dict[LoopAxis, LoopAxis]]:
    """The stage with an axis of ``new_extent`` values. Raises PaddingError if the new ones have an effect."""
    old = root.source
    assert old is not None, f"{root.name} is no axis"
    if root.kind == "data":
        axes = (*state.computation.axes, *state.computation.reduce_axes)
        point = {each.name: (old.extent if each is old else each.start) for each in axes}
        cell = tuple(old.extent if a is old else 0 for a in state.computation.axes)
        witness = PaddingWitness(stage.name, point, cell, ())
        raise PaddingError(
            f"instances that {command} adds to stage {stage.name} must write cells inside its shape "
            f"{state.tensor.shape}, not {stage.name}{list(cell)}. Lay {stage.name} out with padding instead of "
            f"splitting {root.name}.",
            witness,
        )
    new = Axis(old.name, new_extent, old.start, "reduce")
    wide, renamed = with_axis(state, old, new)
    _check_added(stage, wide, new, old.extent, command)
    return wide, renamed


def with_axis(state: StageState, old: Axis, new: Axis) -> tuple[StageState, dict[LoopAxis, LoopAxis]]:
    """A stage with one reduction axis replaced, and its loop if that is replaced, too."""
    computation = state.computation
    root = next(each for each in state.roots if each.source is old)
    new_loop = LoopAxis(root.name, root.kind, new)
    axes = tuple(new if axis is old else axis for axis in computation.reduce_axes)
    onto: dict[Axis, Expr] = {old: AxisRef(new)}
    bodies: list[Expr] = []
    for body in computation.bodies:
        assert isinstance(body, Reduce), f"{computation.name} has reduction axes and no reduction"
        bodies.append(Reduce(body.kind, rewrite_indices(substitute(body.body, onto), simplified_index), axes))
    wide = replace(computation, reduce_axes=axes, bodies=tuple(bodies))

    def loop(each: LoopAxis) -> LoopAxis:
        return new_loop if each is root else each

    new_state = replace(
        state,
        computation=wide,
        roots=tuple(map(loop, state.roots)),
        leaves=tuple(map(loop, state.leaves)),
        relations=tuple(with_loops(each, loop) for each in state.relations),
        unrolled=frozenset(map(loop, state.unrolled)),
        annotations=MappingProxyType({loop(each): annotation for each, annotation in state.annotations.items()}),
        threads=MappingProxyType({loop(each): count for each, count in state.threads.items()}),
        warmup=MappingProxyType({loop(each): count for each, count in state.warmup.items()}),
        sync_ops=tuple(replace(each, axis=loop(each.axis)) if each.axis else each for each in state.sync_ops),
        pragma_axis=loop(state.pragma_axis) if state.pragma_axis else None,
    )
    return new_state, {root: new_loop}


def _check_added(stage: EditedStage, state: StageState, axis: Axis, extent: int, command: str) -> None:
    """Refuse values added to an axis, from its old extent on, at which a reduction takes more than neutral values."""
    branches = GuardRemoval(stage, lambda _: False, command, state.computation)
    position = branches.flow.points.position[axis]
    added = branches.flow.domain().lower_bound_val(isl.dim_type.set, position, isl.Val(axis.start + extent))
    for body in state.computation.bodies:
        assert isinstance(body, Reduce), f"{stage.name} has reduction axes and no reduction"
        branches.check(added, body.body, Const(neutral_element(body.kind, body.dtype), body.dtype))


def _simplified(computation: Computation) -> Computation:
    return with_bodies(computation, tuple(rewrite_indices(body, simplified_index) for body in computation.bodies))
