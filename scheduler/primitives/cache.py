"""``cache_read`` and ``cache_write``: copies of a tensor in a scratchpad."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from lathe.configs.errors import shown
from lathe.configs.integers import integer
from lathe.frontend import Axis, Computation, Tensor
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.recurrences import innermost_carrying_loop, recurrence_of
from lathe.scheduler.primitives.resolve_location import location_of
from lathe.scheduler.primitives.set_scope import checked_scope
from lathe.scheduler.primitives.split_tuple import single_output
from lathe.scheduler.primitives.stage_through_acc import cache_write_at
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.rewriting.padding import live_conditions
from lathe.scheduler.rewriting.rewrite import copy_of, redirect_reads, with_new_axes
from lathe.scheduler.rewriting.strided_access import StridedElements, elements_read, restrict_dim, restrict_reads
from lathe.scheduler.rewriting.undef import undef_unless, where_defined
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.loops import AxisLike
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import initial_state


def cache_read(
    schedule: Edit,
    tensor: Tensor,
    scope: str,
    readers: Iterable[Tensor | EditedStage] | Tensor | EditedStage | None = None,
    *,
    at: tuple[Tensor | EditedStage, AxisLike] | None = None,
    gathered: Sequence[int] = (),
) -> Tensor:
    """Let the given consumers (all by default) read a copy of ``tensor`` in memory ``scope``.

    The copy is a stage of its own, to be placed with ``compute_at``, or at once with ``at=(stage, axis)``: then each
    iteration of that loop copies what it reads. A copy of a tensor within a recurrence is placed in the loops that
    carry the recurrence. Before::

        for i in 0..60:
          C[i] = A[i] + 1

    After ``AA = s.cache_read(A, "inp", [C])``::

        buffer A.inp in inp: [0 + 60]
        for i0 in 0..60:
          A.inp[i0] = A[i0]
        for i in 0..60:
          C[i] = A.inp[i] + 1
        free A.inp

    ``gathered`` lists dimensions along which the copy is compacted to the indices that are read: if ``C[i]`` is
    ``A[2*i] + 1``, the copy with ``gathered=[0]`` is ``A.inp[i0] = A[2*i0]``, and C reads ``A.inp[i]``.

    Returns the copy's tensor. Raises ScheduleError for an unknown scope, a tensor outside the program, a consumer that
    does not read it, an axis that is no loop, or a gathered dimension with indices that are not affine; LegalityError
    for a consumer outside the loop.
    """
    tensor = schedule.current(tensor)
    where = f"cache_read of {getattr(tensor, 'name', tensor)}"
    name = checked_scope(scope, where)
    if not isinstance(tensor, Tensor) or not schedule.consumers(tensor):
        raise ScheduleError(
            f"tensor of cache_read must be one that a stage reads, not {getattr(tensor, 'name', tensor)!r}.",
            kind="argument",
        )
    chosen: Sequence[EditedStage] | None = _stages_of(schedule, readers)
    for stage in chosen or ():
        if stage not in schedule.consumers(tensor):
            actual = ", ".join(reader.name for reader in schedule.consumers(tensor))
            raise ScheduleError(
                f"readers of {where} must be stages that read it ({actual}), not {stage.name!r}.", kind="argument"
            )
    if chosen is None:
        chosen = schedule.consumers(tensor)
    if not chosen:
        raise ScheduleError(
            f"readers of {where} must be one stage or more, not none. Leave them out to select all.", kind="argument"
        )
    computation = copy_of(tensor, fresh_name(schedule, f"{tensor.name}.{name}"), axes_of_copy(tensor))
    layout = schedule.layouts.get(tensor)
    if layout is not None and layout.padding_count:  # cells that must not be read are not copied
        conditions = live_conditions(layout.padded_maps, computation.axes)
        forbidden = [condition for condition, value in conditions if value is None]
        computation = replace(computation, bodies=(undef_unless(computation.bodies[0], forbidden),))

    changed = {stage: stage.state.computation for stage in chosen}
    found = _gathered(tensor, gathered, list(changed.values()), where)
    for dim, elements in found.items():
        computation = restrict_dim(computation, dim, elements)
    state = initial_state(computation, name, copies=tensor)
    recurrence = recurrence_of(schedule, chosen[0])
    if any(tensor in each.state.tensors for each in recurrence):
        state = replace(state, attachment=innermost_carrying_loop(chosen[0]))
    if at is not None:
        state = replace(state, attachment=location_of(schedule, at, "cache_read"))
    cached = schedule.new(state)
    for dim, elements in found.items():
        changed = {stage: restrict_reads(each, tensor, tensor, dim, elements) for stage, each in changed.items()}
    changes = {
        stage: replace(stage.state, computation=redirect_reads(each, {tensor: cached.tensor}))
        for stage, each in changed.items()
    }
    position = min(schedule.stages.index(stage) for stage in chosen)
    stages = [*schedule.stages[:position], cached, *schedule.stages[position:]]
    commit(schedule, {cached: cached.state, **changes}, "cache_read", stages=stages)
    return cached.tensor


def _gathered(tensor: Tensor, dims: object, readers: Sequence[Computation], where: str) -> dict[int, StridedElements]:
    """By dimension, the indices that the consumers read."""
    if not isinstance(dims, Sequence) or isinstance(dims, str) or any(integer(dim) is None for dim in dims):
        raise ScheduleError(f"gathered of {where} must be a list of dimensions, not {shown(dims)}.", kind="argument")
    found: dict[int, StridedElements] = {}
    for dim in dims:
        if not 0 <= dim < tensor.ndim or dim in found:
            raise ScheduleError(
                f"gathered of {where} must be different dimensions from 0 to {tensor.ndim - 1}, not {shown(dims)}.",
                kind="argument",
            )
        reads = [read.indices[dim] for each in readers for read in each.reads if read.tensor is tensor]
        elements = elements_read(reads, tensor.shape[dim])
        if elements is None:
            raise ScheduleError(
                f"gathered of {where} must be dimensions that are read at affine indices, not {dim}. Copy the whole "
                "dimension.",
                kind="argument",
            )
        found[dim] = elements
    return found


def cache_write(schedule: Edit, tensor: Tensor, scope: str, *, at: "AxisLike | None" = None) -> Tensor:
    """Compute ``tensor`` in memory ``scope``, and copy it from there to its own memory.

    The stage of the tensor becomes the copy; a new stage before it computes the values and has the reduction axes. In a
    recurrence the new stage is placed in the loops that carry it. With ``at``, a loop of the tensor's stage, each of
    its iterations computes what it copies; the stage's loops may be scheduled already, and stay with the copy. Before::

        for i in 0..60:
          C[i] = A[i] + 1

    After ``CC = s.cache_write(C, "acc")``::

        buffer C.acc in acc: [0 + 60]
        for i in 0..60:
          C.acc[i] = A[i] + 1
        for i in 0..60:
          C[i] = C.acc[i]
        free C.acc

    Returns the tensor of the new stage. A computation of several outputs is split into one for each. Raises
    ScheduleError for an unknown scope, a tensor without a stage, or, without ``at``, one whose loops have been changed:
    call cache_write before other primitives.
    """
    name = checked_scope(scope, f"cache_write of {getattr(tensor, 'name', tensor)}")
    stage = single_output(schedule[tensor], schedule.current(tensor), "cache_write")
    state, tensor = stage.state, stage.tensor
    if at is not None:
        return cache_write_at(stage, name, at)
    if state.has_changed_loops or state.unrolled or schedule.attached(stage):
        raise ScheduleError(
            f"Cannot apply cache_write to {stage.name}: its loops have been changed or annotated, or stages are "
            "computed inside it. Call cache_write before other primitives.",
            kind="limit",
        )

    computation = with_new_axes(state.computation, fresh_name(schedule, f"{tensor.name}.{name}"))
    writer = schedule.new(initial_state(computation, name))
    copy = copy_of(writer.tensor, state.computation.name, state.computation.axes)
    copy = where_defined(copy, state.computation)
    copy = replace(copy, where=state.computation.where)  # outside the domain an output is zero anyway
    data = tuple(root for root in state.roots if root.kind == "data")
    copier = replace(state, computation=copy, roots=data, leaves=data, copy_of=writer.tensor)
    position = schedule.stages.index(stage)
    stages = [*schedule.stages[:position], writer, *schedule.stages[position:]]
    if recurrence_of(schedule, stage):
        writer.change(attachment=innermost_carrying_loop(stage))
    commit(schedule, {writer: writer.state, stage: copier}, "cache_write", stages=stages)
    return writer.tensor


def _stages_of(schedule: Edit, readers: object) -> list[EditedStage] | None:
    """The stages named by ``readers``: one tensor or stage, or several; None for None."""
    if readers is None:
        return None
    if isinstance(readers, Tensor | StageView | Computation) or not isinstance(readers, Iterable):
        return [schedule[readers]]  # type: ignore[index]  # raises for anything but a stage
    return [schedule[each] for each in readers]


def axes_of_copy(tensor: Tensor) -> tuple[Axis, ...]:
    """Axes for a copy of the tensor, with the names of its computation's axes."""
    if tensor.computation is not None:
        return tuple(Axis(axis.name, axis.extent) for axis in tensor.computation.axes)
    return tuple(Axis(f"i{d}", extent) for d, extent in enumerate(tensor.shape))
