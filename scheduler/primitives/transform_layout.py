"""``transform_layout``: the axes along which a tensor is stored."""

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
from lathe.scheduler.primitives.split_tuple import single_output
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
    """Separates two dimensions of a physical buffer in the list that a layout function returns."""

    def __repr__(self) -> str:
        return "AXIS_SEPARATOR"


AXIS_SEPARATOR = AxisSeparator()


def transform_layout(
    schedule: Edit, tensor: Tensor, function: Callable[..., Any], *, pad_value: object = None
) -> tuple[LoopAxis, ...]:
    """Change the physical layout of a tensor: ``function`` maps an index to the index in the new layout.

    ``function`` is called with an axis for each dimension, by position, and returns a list of index expressions; with
    ``lambda *indices`` it may take any number. The map must be injective. All reads and writes are rewritten, and the
    stage that computes the tensor then runs over the new axes. Before::

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
    list makes a physical buffer of several dimensions, each row-major over the axes between separators. Arrays that the
    user passes and receives keep their shape: the host CPU packs and unpacks them. ``s.layout(tensor)`` has the
    positions of elements. A computation of several outputs is split into one for each, in clones of its loops.

    Cells of no element are padding: ``[i // 4, i % 4]`` of 14 elements has two after the last,
    ``[(i + 2) // 8, (i + 2) % 8]`` two before the first. ``pad_value`` is their contract: None (must not be read),
    ``lt.undef`` (any value), a number, or a function of the new indices, which may also take the tensor in its new
    layout, to copy elements of it. The stage that computes the tensor writes the padding; for an input the host CPU
    does. Each new index ranges up to the last element; with a contract, blocks are filled: ``[c // 16, c % 16]`` of 8
    channels is one block of 16.

    Loops that other primitives have changed stay if the layout keeps their axis as an index of its own; the new loops
    are placed at the position of the outermost loop that is removed.

    Returns the loops of the stage, outermost first; none for an input. Raises ScheduleError for a tensor outside the
    program, a function that takes another number of indices or returns something else, a map that is not injective,
    with examples, or that leaves cells out within an axis, a physical buffer of more dimensions than its memory allows,
    an invalid pad_value, or an axis that the layout divides and whose loop has been changed. TVM's RFCs 0039 and 0077.
    """
    current = schedule.current(tensor) if isinstance(tensor, Tensor) else tensor
    producer = schedule.producer(current) if isinstance(current, Tensor) else None
    if not isinstance(current, Tensor) or (producer is None and not schedule.consumers(current)):
        raise ScheduleError(
            "tensor of transform_layout must be one that the program reads or computes, not "
            f"{getattr(tensor, 'name', tensor)!r}.",
            kind="argument",
        )
    if producer is not None:
        _check_producer(producer)
    if producer is not None:
        producer = single_output(producer, current, "transform_layout")
    _transform(schedule, current, producer, function, pad_value)
    return () if producer is None else tuple(leaf for leaf in producer.state.leaves if leaf.kind == "data")


def _transform(
    schedule: Edit, current: Tensor, producer: EditedStage | None, function: Callable[..., Any], pad_value: object
) -> None:
    old = schedule.layouts.get(current, TensorLayout(current))
    new = _map_of(current, function, whole=pad_value is not None)
    pad = pad_of(current, new, pad_value) if new.padded else None
    if pad is not None and pad_value is not None and pad.value is None:  # the function returned None
        new = _map_of(current, function)
        pad = pad_of(current, new, pad_value) if new.padded else None
    changes: dict[EditedStage, StageState] = {}
    renamed: dict[LoopAxis, LoopAxis] = {}
    if producer is None:
        transformed = Tensor(current.name, new.shape, current.dtype)
    else:
        changes[producer] = _over_new_axes(producer.state, new, pad)
        if _has_changed_loops(producer):
            changes[producer], renamed = with_loops_of(producer, new, changes[producer])
        transformed = changes[producer].tensor
    for consumer in schedule.consumers(current):
        state = changes.get(consumer, consumer.state)
        changes[consumer] = replace(state, computation=_reading(state.computation, current, transformed, new))
    layout = TensorLayout(old.tensor, (*old.maps, new), (*old.predecessors, current), (*old.pads, pad))
    others = {each: other for each, other in schedule.layouts.items() if each is not current}
    outputs = tuple(transformed if each is current else each for each in schedule.outputs)
    schedule.update(layouts={**others, transformed: layout}, outputs=outputs)
    commit(schedule, changes, "transform_layout", renamed=renamed)


def transform_layout_of(
    stage: EditedStage, function: Callable[..., Any], *, pad_value: object = None
) -> tuple[LoopAxis, ...]:
    """``transform_layout`` of the schedule, for the tensor that this stage computes.

    Raises ScheduleError for a stage of several outputs, of which one must be named.
    """
    single_output(stage, stage.state.computation, "transform_layout")
    return transform_layout(stage.schedule, stage.tensor, function, pad_value=pad_value)


def _has_changed_loops(stage: EditedStage) -> bool:
    state = stage.state
    shared = state.attachment is not None and bool(state.attachment.loops)
    return state.has_changed_loops or bool(
        state.unrolled or state.annotations or stage.schedule.attached(stage) or shared
    )


def _check_producer(stage: EditedStage) -> None:
    state = stage.state
    if state.storage is not None:
        raise ScheduleError(
            f"Cannot transform the layout of {stage.name}: store_in has already mapped it to {state.storage}, from the "
            "axes of its present layout. Call transform_layout before store_in.",
            kind="limit",
        )


def _map_of(tensor: Tensor, function: Callable[..., Any], *, whole: bool = False) -> IndexMap:
    """The index map that the function defines. Raises ScheduleError if it defines none."""
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
            "next to another one. Leave it out.",
            kind="argument",
        )
    return index_map(axes, indices, separators, tensor.name, whole=whole)


def _over_new_axes(state: StageState, new: IndexMap, pad: AddedCells | None) -> StageState:
    """The stage that computes the tensor in its new layout."""
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
    fresh = initial_state(computation, state.scope, state.copy_of)
    return replace(fresh, attachment=state.attachment, on_alu=state.on_alu, reuse=state.reuse)


def _reading(computation: Computation, old: Tensor, transformed: Tensor, new: IndexMap) -> Computation:
    """A computation that reads the tensor in its new layout."""
    return computation.mapped(
        lambda expr: rewrite_reads(expr, old, lambda read: Read(transformed, new.apply(read.indices)))
    )
