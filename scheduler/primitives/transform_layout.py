"""``transform_layout``: the elements of a tensor in another order, or along other axes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lathe.frontend import Axis, Computation, Tensor
from lathe.frontend.arith.simplify import simplified_index
from lathe.frontend.arith.substitution import substitute
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Binary, Not, Read
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.primitives.index_functions import called, index_given
from lathe.scheduler.primitives.relayout_loops import with_loops_of
from lathe.scheduler.primitives.split_tuple import alone
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.rewriting.index_maps import IndexMap, index_map
from lathe.scheduler.rewriting.padded_exprs import padded_body
from lathe.scheduler.rewriting.padding import AddedCells, pad_of
from lathe.scheduler.rewriting.rewrite import rewrite_indices, rewrite_reads
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.layout import TensorLayout
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.stage import StageState, initial_state


class AxisSeparator:
    """What stands between two dimensions of a physical buffer in the list that a layout's function returns."""

    def __repr__(self) -> str:
        return "AXIS_SEPARATOR"


AXIS_SEPARATOR = AxisSeparator()


def transform_layout(
    schedule: Edit, tensor: Tensor, function: Callable[..., Any], *, pad_value: object = None
) -> tuple[LoopAxis, ...]:
    """Lay a tensor out along other axes: ``function`` maps an index of it to the index in the new layout.

    ``function`` is called with an axis for each dimension, by position, and returns a list of index expressions; with
    ``lambda *indices`` it may take any number. Every element must have a cell of its own. All reads and writes follow.
    The stage that computes the tensor then runs over the new axes. Before::

        for i in 0..64:
          B[i] = A[i] + 1
        for i in 0..64:
          C[i] = B[i] * 2

    After ``io, ii = s.transform_layout(B, lambda i: [i // 16, i % 16])``::

        for io in 0..4:
          for ii in 0..16:
            B[io, ii] = A[io * 16 + ii] + 1
        for i in 0..64:
          C[i] = B[i // 16, i % 16] * 2

    A second call starts from the axes of the first. Memory is row-major over the new axes; ``AXIS_SEPARATOR`` in the
    list makes a physical buffer of several dimensions, each row-major over the axes between separators. What the user
    passes to and gets from a program stays as it was: the host packs and unpacks. ``s.layout(tensor)`` tells where
    elements are. A computation of several outputs becomes one for each of them, in loops like those that it had.

    Cells of no element are padding: ``[i // 4, i % 4]`` of 14 elements has two behind the last, ``[(i + 2) // 8,
    (i + 2) % 8]`` two before the first. ``pad_value`` says what they hold: None (nothing may read them), ``lt.undef``
    (anything), a number, or a function of the new indices, which may take the tensor in its new layout, too, to copy
    elements of it. The stage that computes the tensor writes that; of an input, the host does. Each new index goes as
    far as elements lead; with a value for padding, blocks are whole: ``[c // 16, c % 16]`` of 8 channels is one of 16.

    Loops that other commands have changed stay as they are where the layout keeps their axis as an index of its own;
    the new loops come in the place of the outermost one that goes.

    Returns the loops of the stage, outermost first; none for an input. Raises ScheduleError for a tensor that is
    not part of the program, a function that takes another number of indices or returns something else, a map that sends
    two indices to one cell, with examples, or leaves cells out between those of an axis, a physical buffer of more
    dimensions than its memory has, a pad_value that is none, or a loop changed already
    of an axis that the layout takes apart. In the
    manner of TVM (RFC 0039 and RFC 0077).
    """
    now = schedule.current(tensor) if isinstance(tensor, Tensor) else tensor
    maker = schedule.maker(now) if isinstance(now, Tensor) else None
    if not isinstance(now, Tensor) or (maker is None and not schedule.readers(now)):
        raise ScheduleError(
            "tensor of transform_layout must be one that the program reads or computes, not "
            f"{getattr(tensor, 'name', tensor)!r}.",
            kind="argument",
        )
    if maker is not None:
        _check_maker(maker)
    if maker is not None:
        maker = alone(maker, now, "transform_layout")
    _transform(schedule, now, maker, function, pad_value)
    return () if maker is None else tuple(leaf for leaf in maker.state.leaves if leaf.kind == "data")


def _transform(
    schedule: Edit, now: Tensor, maker: EditedStage | None, function: Callable[..., Any], pad_value: object
) -> None:
    old = schedule.layouts.get(now, TensorLayout(now))
    new = _map_of(now, function, whole=pad_value is not None)
    pad = pad_of(now, new, pad_value) if new.padded else None
    if pad is not None and pad_value is not None and pad.value is None:  # a function that says so
        new = _map_of(now, function)
        pad = pad_of(now, new, pad_value) if new.padded else None
    changes: dict[EditedStage, StageState] = {}
    renamed: dict[LoopAxis, LoopAxis] = {}
    if maker is None:
        seen = Tensor(now.name, new.shape, now.dtype)
    else:
        changes[maker] = _over_new_axes(maker.state, new, pad)
        if _has_changed_loops(maker):
            changes[maker], renamed = with_loops_of(maker, new, changes[maker])
        seen = changes[maker].tensor
    for reader in schedule.readers(now):
        state = changes.get(reader, reader.state)
        changes[reader] = replace(state, computation=_reading(state.computation, now, seen, new))
    layout = TensorLayout(old.tensor, (*old.maps, new), (*old.earlier, now), (*old.pads, pad))
    others = {each: kept for each, kept in schedule.layouts.items() if each is not now}
    outputs = tuple(seen if each is now else each for each in schedule.outputs)
    schedule.update(layouts={**others, seen: layout}, outputs=outputs)
    commit(schedule, changes, "transform_layout", renamed=renamed)


def transform_layout_of(
    stage: EditedStage, function: Callable[..., Any], *, pad_value: object = None
) -> tuple[LoopAxis, ...]:
    """``transform_layout`` of the schedule, for the tensor that this stage computes.

    Raises ScheduleError for a stage that computes several, of which one must be named.
    """
    alone(stage, stage.state.computation, "transform_layout")
    return transform_layout(stage.schedule, stage.tensor, function, pad_value=pad_value)


def _has_changed_loops(stage: EditedStage) -> bool:
    state = stage.state
    shared = state.attachment is not None and bool(state.attachment.loops)
    return state.is_touched or bool(state.unrolled or state.annotations or stage.schedule.attached(stage) or shared)


def _check_maker(stage: EditedStage) -> None:
    state = stage.state
    if state.storage is not None:
        raise ScheduleError(
            f"stage of transform_layout must not have its values stored yet, unlike {stage.name}, which is in "
            f"{state.storage}: the map of store_in starts from the axes of the layout. Call transform_layout before "
            "store_in.",
            kind="limit",
        )


def _map_of(tensor: Tensor, function: Callable[..., Any], *, whole: bool = False) -> IndexMap:
    """The map that the function describes. Raises ScheduleError if it describes none."""
    axes, result = called(tensor, function, "transform_layout")
    indices: list[Expr] = []
    separators: list[int] = []
    for each in result:
        if each is AXIS_SEPARATOR:
            separators.append(len(indices))
        else:
            indices.append(index_given(tensor, axes, each, "transform_layout"))
    if len({0, *separators, len(indices)}) < len(separators) + 2:
        raise ScheduleError(
            f"AXIS_SEPARATOR of transform_layout of {tensor.name} must stand between two indices, not at an end or "
            "beside another one. Leave it out.",
            kind="argument",
        )
    return index_map(axes, indices, separators, tensor.name, whole=whole)


def _over_new_axes(state: StageState, new: IndexMap, pad: AddedCells | None) -> StageState:
    """The stage computing the tensor in its new layout."""
    old = state.computation
    names = new.names([axis.name for axis in old.reduce_axes])
    axes = tuple(Axis(name, extent) for name, extent in zip(names, new.shape, strict=True))
    inverse = new.inverse(axes)
    values = {own: inverse[axis] for own, axis in zip(old.axes, new.axes, strict=True)}
    moved = old.mapped(lambda expr: rewrite_indices(substitute(expr, values), simplified_index))
    bodies, where = moved.bodies, moved.where
    live = new.live(axes)
    if live is not None:
        assert pad is not None, f"{new} adds cells without a contract"
        onto = {own: AxisRef(axis) for own, axis in zip(pad.axes, axes, strict=True)}
        added = None if pad.value is None else substitute(pad.value, onto)
        bodies = tuple(
            padded_body(body, live, added, old_body, old.axes)
            for body, old_body in zip(bodies, old.bodies, strict=True)
        )
        where = where if where is None else Binary("or", Not(live), where)
    computation = replace(old, axes=axes, bodies=bodies, where=where)
    fresh = initial_state(computation, state.scope, state.copies)
    return replace(fresh, attachment=state.attachment, on_alu=state.on_alu, reuse=state.reuse)


def _reading(computation: Computation, old: Tensor, seen: Tensor, new: IndexMap) -> Computation:
    """A computation that reads the tensor in its new layout."""
    return computation.mapped(lambda expr: rewrite_reads(expr, old, lambda read: Read(seen, new.apply(read.indices))))
