"""``transform_layout``: the elements of a tensor in another order, or along other axes."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lathe.frontend import Axis, Computation, Tensor, TensorError
from lathe.frontend.arithmetic import cast, expression
from lathe.frontend.errors import shown
from lathe.frontend.expressions import AxisRef, Expr, Read, axes_of, reads_data
from lathe.frontend.substitution import substitute
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.index_maps import IndexMap, index_map
from lathe.scheduler.indices import simplified_index
from lathe.scheduler.padded_bodies import padded_body
from lathe.scheduler.padding import Pad, pad_of
from lathe.scheduler.rewrite import rewrite_indices, rewrite_reads
from lathe.scheduler.state import LoopAxis, StageState, initial_state
from lathe.scheduler.tensor_layouts import TensorLayout

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule
    from lathe.scheduler.stage import Stage


class AxisSeparator:
    """What stands between two dimensions of a physical buffer in the list that a layout's function returns."""

    def __repr__(self) -> str:
        return "AXIS_SEPARATOR"


AXIS_SEPARATOR = AxisSeparator()


def transform_layout(
    schedule: "Schedule", tensor: Tensor, function: Callable[..., Any], *, pad_value: object = None
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
    elements are.

    Cells of no element are padding: ``[i // 4, i % 4]`` of 14 elements has two behind the last, ``[(i + 2) // 8,
    (i + 2) % 8]`` two before the first. ``pad_value`` says what they hold: None (nothing may read them), ``lt.undef``
    (anything), a number, or a function of the new indices, which may take the tensor in its new layout, too, to copy
    elements of it. The stage that computes the tensor writes that; of an input, the host does. Each new index goes as
    far as elements lead; with a value for padding, blocks are whole: ``[c // 16, c % 16]`` of 8 channels is one of 16.

    Returns the new loops of the stage, outermost first; none for an input. Raises ScheduleError for a tensor that is
    not part of the program, a function that takes another number of indices or returns something else, a map that sends
    two indices to one cell, with examples, or leaves cells out between those of an axis, a physical buffer of more
    dimensions than its memory has, a pad_value that is none, or a stage whose loops have been changed already. In the
    manner of TVM (RFC 0039 and RFC 0077).
    """
    now = schedule.current(tensor) if isinstance(tensor, Tensor) else tensor
    maker = schedule.maker(now) if isinstance(now, Tensor) else None
    if not isinstance(now, Tensor) or (maker is None and not schedule.readers(now)):
        raise ScheduleError(
            "tensor of transform_layout must be one that the program reads or computes, not "
            f"{getattr(tensor, 'name', tensor)!r}."
        )
    if maker is not None:
        _check_untouched(maker)
    old = schedule.layouts.get(now, TensorLayout(now))
    new = _map_of(now, function, whole=pad_value is not None)
    pad = pad_of(now, new, pad_value) if new.padded else None
    if pad is not None and pad_value is not None and pad.value is None:  # a function that says so
        new = _map_of(now, function)
        pad = pad_of(now, new, pad_value) if new.padded else None
    changes: dict[Stage, StageState] = {}
    if maker is None:
        seen = Tensor(now.name, new.shape, now.dtype)
    else:
        changes[maker] = _over_new_axes(maker.state, new, pad)
        seen = changes[maker].tensor
    for reader in schedule.readers(now):
        state = changes.get(reader, reader.state)
        changes[reader] = replace(state, computation=_reading(state.computation, now, seen, new))
    before = schedule.layouts, schedule.outputs
    layout = TensorLayout(old.tensor, (*old.maps, new), (*old.earlier, now), (*old.pads, pad))
    schedule.layouts = {**{each: kept for each, kept in schedule.layouts.items() if each is not now}, seen: layout}
    schedule.outputs = tuple(seen if each is now else each for each in schedule.outputs)
    try:
        schedule.commit(changes, "transform_layout")
    except BaseException:
        schedule.layouts, schedule.outputs = before
        raise
    return () if maker is None else maker.axis


def transform_layout_of(
    stage: "Stage", function: Callable[..., Any], *, pad_value: object = None
) -> tuple[LoopAxis, ...]:
    """``transform_layout`` of the schedule, for the tensor that this stage computes."""
    return transform_layout(stage.schedule, stage.tensor, function, pad_value=pad_value)


def _check_untouched(stage: "Stage") -> None:
    state = stage.state
    if len(state.tensors) > 1:
        raise ScheduleError(
            f"tensor of transform_layout must be the only output of its computation, not one of {len(state.tensors)} "
            f"of {stage.name}. Give each output a computation of its own."
        )
    if state.is_touched or state.unrolled or state.marks or stage.schedule.attached(stage):
        raise ScheduleError(
            f"stage of transform_layout must have its loops as they were made, not changed ones: {stage.name} has been "
            "split, reordered, tagged, or has stages computed inside it. Call transform_layout before other commands."
        )


def _map_of(tensor: Tensor, function: Callable[..., Any], *, whole: bool = False) -> IndexMap:
    """The map that the function describes. Raises ScheduleError if it describes none."""
    names = _parameters(tensor, function)
    axes = tuple(Axis(name, extent) for name, extent in zip(names, tensor.shape, strict=True))
    try:
        result = function(*(AxisRef(axis) for axis in axes))
    except TensorError as error:
        raise ScheduleError(
            f"function of transform_layout of {tensor.name} must return index expressions, which failed: {error}"
        ) from None
    if not isinstance(result, Sequence) or isinstance(result, str) or not result:
        raise ScheduleError(
            f"function of transform_layout of {tensor.name} must return a list of index expressions, not "
            f"{shown(result)}. Return the new index, as in [i // 4, i % 4]."
        )
    indices: list[Expr] = []
    separators: list[int] = []
    for each in result:
        if each is AXIS_SEPARATOR:
            separators.append(len(indices))
        else:
            indices.append(_index(tensor, axes, each))
    if len({0, *separators, len(indices)}) < len(separators) + 2:
        raise ScheduleError(
            f"AXIS_SEPARATOR of transform_layout of {tensor.name} must stand between two indices, not at an end or "
            "beside another one. Leave it out."
        )
    return index_map(axes, indices, separators, tensor.name, whole=whole)


def _parameters(tensor: Tensor, function: Callable[..., Any]) -> list[str]:
    """A name for each dimension: those of the function's parameters."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # it cannot be called, or is one of Python's own that do not say how
        raise ScheduleError(
            f"function of transform_layout of {tensor.name} must take an index and return the new one, not be "
            f"{shown(function)}. Pass it as in lambda i, j: [j, i]."
        ) from None
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    rest = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    required = [each for each in positional if each.default is each.empty]
    if len(required) > tensor.ndim or (len(positional) < tensor.ndim and not rest):
        raise ScheduleError(
            f"parameters of the function of transform_layout of {tensor.name} must be {tensor.ndim}, one per axis of "
            f"its present layout {tensor.shape}, not {len(required)}. Write lambda *indices to take any number."
        )
    names = [each.name for each in positional[: tensor.ndim]]
    if tensor.computation is not None and tensor.computation.shape == tensor.shape:
        others = [axis.name for axis in tensor.computation.axes]
    else:
        others = [f"i{position}" for position in range(tensor.ndim)]
    return names + others[len(names) :]


def _index(tensor: Tensor, axes: tuple[Axis, ...], given: object) -> Expr:
    """One of the returned values as an expression."""
    where = f"index in the list that the function of transform_layout of {tensor.name} returns"
    try:
        value = expression(given, where)
        if value.dtype == "bool" or reads_data(value):
            raise TensorError("")
        index = cast(value, "index")
    except TensorError:
        raise ScheduleError(f"{where} must be an expression of its parameters, not {shown(given)}.") from None
    strange = next((axis for axis in axes_of(index) if axis not in axes), None)
    if strange is not None:
        raise ScheduleError(
            f"{where} must be an expression of its parameters, not of axis {strange.name!r}, which is none of them."
        )
    return index


def _over_new_axes(state: StageState, new: IndexMap, pad: Pad | None) -> StageState:
    """The stage computing the tensor in its new layout."""
    old = state.computation
    names = new.names([axis.name for axis in old.reduce_axes])
    axes = tuple(Axis(name, extent) for name, extent in zip(names, new.shape, strict=True))
    inverse = new.inverse(axes)
    values = {own: inverse[axis] for own, axis in zip(old.axes, new.axes, strict=True)}
    bodies = tuple(rewrite_indices(substitute(body, values), simplified_index) for body in old.bodies)
    live = new.live(axes)
    if live is not None:
        assert pad is not None, f"{new} adds cells without a contract"
        onto = {own: AxisRef(axis) for own, axis in zip(pad.axes, axes, strict=True)}
        added = None if pad.value is None else substitute(pad.value, onto)
        bodies = tuple(
            padded_body(body, live, added, old_body, old.axes)
            for body, old_body in zip(bodies, old.bodies, strict=True)
        )
    computation = Computation(old.name, axes, old.reduce_axes, bodies, old.attrs)
    fresh = initial_state(computation, state.scope, state.copies)
    return replace(fresh, attachment=state.attachment, hints=state.hints, on_alu=state.on_alu, reuse=state.reuse)


def _reading(computation: Computation, old: Tensor, seen: Tensor, new: IndexMap) -> Computation:
    """A computation that reads the tensor in its new layout."""
    bodies = tuple(
        rewrite_reads(body, old, lambda read: Read(seen, new.apply(read.indices))) for body in computation.bodies
    )
    return Computation(computation.name, computation.axes, computation.reduce_axes, bodies, computation.attrs)
