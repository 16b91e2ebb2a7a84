"""A stage is computed in a scratchpad and copied from there to the memory of its scope, whatever its loops."""

from dataclasses import replace
from types import MappingProxyType

from lathe.frontend import Tensor
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.split_map_by_axis_kind import relations_by_kind
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.rewriting.rewrite import copy_of, with_new_axes
from lathe.scheduler.rewriting.undef import where_defined
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.loops import AxisLike, LoopAxis
from lathe.scheduler.schedule_ir.memories import ACC
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageState, initial_state


def cache_write_at(stage: EditedStage, scope: str, axis: "AxisLike") -> Tensor:
    """``cache_write`` at a loop of the stage, whose data loops stay as they are scheduled.

    Raises ScheduleError for a reduction loop, or a stage with a pragma or other stages computed inside it.
    """
    schedule, before = stage.schedule, stage.state
    loop = stage.find(axis, "cache_write")
    inside = ", ".join(each.name for each in schedule.attached(stage))
    reason = ""
    if loop.kind == "reduce":
        reason = f"reduction loop {loop.name}"
    elif inside:
        reason = f"one with {inside} computed inside it"
    elif before.pragma is not None:
        reason = f"one whose loops emit_insn gives to rule {before.pragma!r}"
    if reason:
        raise ScheduleError(
            f"axis of cache_write of {stage.name} must be a data loop of a stage without a pragma and without stages "
            f"computed inside it, not {reason}. Call cache_write before other primitives.",
            kind="limit",
        )
    given = schedule.state
    _, writer = stage_through_acc(schedule, stage, scope)
    new_writer, copy = replace(writer.state, attachment=ComputeAt(stage.id, loop)), stage.state
    copy = replace(copy, computation=replace(copy.computation, where=before.computation.where))
    after = schedule.stages
    schedule.reset_to(given)
    commit(schedule, {writer: new_writer, stage: copy}, "cache_write", stages=after)
    return writer.tensor


def stage_through_acc(schedule: Edit, stage: EditedStage, scope: str = ACC) -> tuple[EditedStage, EditedStage]:
    """``cache_write`` for a stage whose loops may be scheduled: its data loops stay with the copy."""
    state = stage.state
    computation = with_new_axes(state.computation, fresh_name(schedule, f"{state.tensor.name}.{scope}"))
    writer = schedule.new(
        replace(
            initial_state(computation, scope),
            vector_layout=state.vector_layout,
            sequential_dims=state.sequential_dims,
            on_alu=state.on_alu,
        )
    )
    reductions, data_relations = relations_by_kind(stage)
    reduce_leaves = [leaf for leaf in state.leaves if leaf.kind == "reduce"]
    reduce_roots = [root for root in state.roots if root.kind == "reduce"]
    if reductions is None:
        reductions, reduce_leaves = (), reduce_roots
    if reductions or any(leaf.kind == "reduce" for leaf in state.synchronised_leaves):
        data_roots = [root for root in writer.state.roots if root.kind == "data"]
        writer.change(roots=(*data_roots, *reduce_roots), leaves=(*data_roots, *reduce_leaves), relations=reductions)
    copy = copy_of(writer.tensor, state.computation.name, state.computation.axes, whole=True)
    copy = where_defined(copy, state.computation)
    stage.put(
        replace(
            state,
            computation=copy,
            roots=tuple(root for root in state.roots if root.kind == "data"),
            leaves=tuple(leaf for leaf in state.leaves if leaf.kind == "data"),
            relations=data_relations,
            copy_of=writer.tensor,
        )
    )
    schedule.insert(writer, before=stage)
    return stage, writer


def distribute_sync(given: StageState, sink: EditedStage, writer: EditedStage) -> int:
    """Distribute threads and synchronisation at loops to the copy and the writer, whichever has the loop now.

    The writer's reduction loops up to such a loop become outermost. Returns how many loops of the copy must enclose it.
    """
    depth = 0
    threads: dict[str, dict[LoopAxis, int]] = {"data": {}, "reduce": {}}
    for leaf in given.synchronised_leaves:
        if leaf in given.threads:
            threads[leaf.kind][leaf] = given.threads[leaf]
        outside = given.leaves[: given.leaves.index(leaf) + 1]
        depth = max(depth, sum(each.kind == "data" for each in outside))
        if leaf.kind == "reduce":
            outermost = [each for each in outside if each.kind == "reduce"]
            rest = [each for each in writer.state.leaves if each not in outermost]
            writer.change(leaves=(*outermost, *rest))
    inner = tuple(each for each in given.sync_ops if each.axis is not None and each.axis.kind == "reduce")
    outer = tuple(each for each in given.sync_ops if each not in inner)
    sink.change(threads=MappingProxyType(threads["data"]), sync_ops=outer)
    writer.change(threads=MappingProxyType(threads["reduce"]), sync_ops=inner)
    return depth
