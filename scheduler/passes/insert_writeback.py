"""Insert write-backs: a stage stored in DRAM, in whose loops others run, becomes a stage in acc and a copy to DRAM.

No instruction computes into DRAM. A stage that is stored there while others run in its loops becomes two stages: one
in acc, which computes the values of an iteration, and the stage itself, which copies them out (STORE).
"""

from dataclasses import replace

from lathe.frontend.expr.nodes import Read
from lathe.scheduler.errors import BuildError, LegalityError
from lathe.scheduler.legality.flow_dependences import check_reads
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.fused_loops import fuses_reduction
from lathe.scheduler.loop_ir.instances import cells_written, computed_box
from lathe.scheduler.loop_ir.recurrences import (
    loops_outside_blocks,
    preceding_consumers,
    recurrence_groups,
    sequential_dims_of,
)
from lathe.scheduler.passes.forward_stores import forward_stores, is_same_iteration
from lathe.scheduler.passes.simplify_recurrence_selects import outline_operand_selects, simplify_selects
from lathe.scheduler.passes.split_recurrence_states import split_states
from lathe.scheduler.primitives.stage_through_acc import distribute_sync, stage_through_acc
from lathe.scheduler.rewriting.matchers import is_loadable, match_gemm_operands
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import ComputeAt
from lathe.scheduler.schedule_ir.user_buffers import outlives_iteration
from lathe.scheduler.target.target import Target


def insert_writeback(schedule: Edit, target: Target) -> None:
    """Give every DRAM stage that shares loops a memory scope that the machine supports, in place.

    What only later stages of the same iteration read moves to a scratchpad; the rest is computed in acc and stored.
    """
    _check_reductions(schedule)
    pairs: list[tuple[EditedStage, EditedStage]] = []
    if schedule.has_recurrences:
        split_states(schedule)
        simplify_selects(schedule)
        _remove_dead_copies(schedule)
        outline_operand_selects(schedule, target)
    for group in recurrence_groups(schedule) if schedule.has_recurrences else []:
        component = [schedule.own(stage) for stage in group]
        for stage in component:
            stage.change(sequential_dims=sequential_dims_of(stage))
            if _is_fused(stage) and not _must_stay_in_dram(stage, component):
                stage.change(scope=_scratchpad_of(stage, target))
        last = component[-1]
        if last.state.scope == DRAM and last.state.attachment is None and not is_writeback(last):
            pairs.append((_split_through_acc(last), last))
    _reattach_dram_stages(schedule)
    for stage in list(schedule.stages):
        if _is_fused(stage) and not is_writeback(stage):
            pairs.append((_split_through_acc(stage), stage))
    for writer, store in pairs:
        forward_stores(schedule, target, writer, store)


def _remove_dead_copies(schedule: Edit) -> None:
    """Remove copies that no stage reads any more."""
    for stage in reversed(list(schedule.stages)):
        needed = any(schedule.consumers(tensor) or tensor in schedule.outputs for tensor in stage.state.tensors)
        if stage.state.copy_of is not None and not needed and not schedule.attached(stage):
            schedule.remove(stage)


def _check_reductions(schedule: Edit) -> None:
    """Raises BuildError where values would be stored, or read after a store, in the middle of a reduction."""
    for stage in schedule.stages:
        location = stage.state.attachment
        if location is None or not location.loops:
            continue
        enclosing = schedule.at(location)
        if fuses_reduction(stage):
            raise BuildError(
                f"Cannot share reduction loops of stage {stage.name} with {enclosing.name} on a machine: the result of "
                "a reduction is stored only when it is complete. Share loops outside the reduction.",
                kind="machine",
            )
        shared = enclosing.state.leaves[: len(location.loops)]
        if stage.state.scope == DRAM and any(loop.kind == "reduce" for loop in shared):
            raise BuildError(
                f"Cannot run stage {stage.name} in the reduction of {enclosing.name} on a machine: its values must be "
                f"in a scratchpad, not in dram. Set its scope with s[{stage.name}].set_scope.",
                kind="limit",
            )
        if any(loop.kind == "reduce" for loop in shared) and not _covers_all_reads(stage, location):
            raise BuildError(
                f"Cannot compute stage {stage.name} in reduction loop {location.axis.name} of {enclosing.name} on a "
                f"machine: the loop computes only the values that {enclosing.name} reads, and other consumers read "
                "more. Share loops outside the reduction.",
                kind="limit",
            )


def _covers_all_reads(stage: EditedStage, location: ComputeAt) -> bool:
    """Whether later consumers find all values in a user buffer if a stage computes only what the reduction reads."""
    if stage.state.storage is None or not outlives_iteration(stage):
        return True
    given = stage.state
    stage.put(replace(given, attachment=ComputeAt(location.enclosing, location.axis)))
    try:
        check_reads(stage.schedule, "build", {stage})
    except LegalityError:
        return False
    finally:
        stage.put(given)
    return True


def _reattach_dram_stages(schedule: Edit) -> None:
    """Attach DRAM stages further out where their enclosing stage will not keep the loops that they share."""
    places = {stage: stage.state.attachment for stage in schedule.stages if stage.state.scope == DRAM}
    for stage, location in places.items():
        while location is not None and location.loops and not _keeps_shared_loops(schedule.at(location)):
            location = _outer_location(stage, location)
        if location is not stage.state.attachment:
            stage.change(attachment=location)


def _keeps_shared_loops(enclosing: EditedStage) -> bool:
    """Whether a stage keeps loops that others share: its own, or shared ones in which its values stay."""
    location = enclosing.state.attachment
    return location is None or not location.loops or enclosing.state.scope == DRAM or outlives_iteration(enclosing)


def _outer_location(stage: EditedStage, location: ComputeAt) -> ComputeAt:
    """The location in the loops of the stage that encloses the enclosing one, before which the stage then runs."""
    enclosing = stage.schedule.at(location)
    above = enclosing.state.attachment
    assert above is not None
    outer = stage.schedule.at(above)
    count = min(len(location.loops), len(above.loops))
    if count < len(location.loops) and stage.state.storage is not None:
        raise BuildError(
            f"Cannot store stage {stage.name} in {stage.state.storage} on a machine: it shares {len(location.loops)} "
            f"loops with {enclosing.name}, which shares only {count} with {outer.name}. Leave out store_in, or share "
            "fewer loops.",
            kind="limit",
        )
    return ComputeAt(above.enclosing, outer.state.leaves[count - 1], location.loops[:count])


def _is_fused(stage: EditedStage) -> bool:
    """Whether a stage in DRAM is fused with another, and no rule of the user's emits its instructions."""
    location = stage.state.attachment
    if location is None or stage.state.scope != DRAM or stage.state.pragma is not None:
        return False
    return bool(location.loops) or can_write_back(stage, location)


def can_write_back(stage: StageView, location: ComputeAt) -> bool:
    """Whether a loop can store the values of a stage in each iteration: no reduction, in a root-level DRAM stage."""
    enclosing = stage.schedule.at(location).state
    whole = enclosing.scope == DRAM and enclosing.attachment is None
    inner = [guest.state.attachment for guest in stage.schedule.attached(stage)]
    reduces = location.axis.kind == "reduce" or any(each and each.axis.kind == "reduce" for each in inner)
    return whole and not reduces


def is_writeback(stage: StageView) -> bool:
    """Whether a stage already is a write-back: a copy from a scratchpad."""
    body = stage.state.computation.bodies[0]
    return isinstance(body, Read) and stage.schedule.scope_of(body.tensor) != DRAM


def _must_stay_in_dram(stage: EditedStage, group: list[EditedStage]) -> bool:
    """Whether values of a stage of a recurrence are read in later iterations, or outside its loops."""
    schedule = stage.schedule
    if any(tensor in schedule.outputs for tensor in stage.state.tensors) or len(stage.state.tensors) > 1:
        return True
    consumers = schedule.consumers(stage.tensor)
    if any(consumer not in group for consumer in consumers) or preceding_consumers(schedule, stage):
        return True
    reads = [(consumer, read) for consumer in consumers for read in consumer.state.computation.reads]
    if not all(is_same_iteration(stage, consumer, read) for consumer, read in reads if read.tensor is stage.tensor):
        return True
    return _is_operand(stage) and not is_loadable(stage.state.computation.bodies[0])


def _is_operand(stage: EditedStage) -> bool:
    """Whether a GEMM reads a stage as an operand."""
    for consumer in stage.schedule.consumers(stage.tensor):
        if any(read.tensor is stage.tensor for read in match_gemm_operands(consumer.state.computation) or ()):
            return True
    return False


def _scratchpad_of(stage: EditedStage, target: Target) -> str:
    return target.data.name if _is_operand(stage) else target.acc.name


def _split_through_acc(stage: EditedStage) -> EditedStage:
    """Compute a stage in acc, in the outermost shared loop of which an iteration computes exactly what it stores."""
    schedule = stage.schedule
    if len(stage.state.tensors) > 1:
        names = ", ".join(tensor.name for tensor in stage.state.tensors)
        raise BuildError(
            f"Cannot store stage {stage.name} in loops that other stages run in on a machine: it computes several "
            f"tensors ({names}), but a stage on a machine computes one. Give each output a computation of its own.",
            kind="limit",
        )
    for guest in schedule.attached(stage):
        location = guest.state.attachment
        if location is not None and location.axis.kind == "reduce":
            raise BuildError(
                f"Cannot compute stage {guest.name} in reduction loop {location.axis.name} of {stage.name} on a "
                f"machine: in shared loops, the reduction of {stage.name} and its store are separate stages. Compute "
                "it at an outer loop.",
                kind="limit",
            )
    given, outside = stage.state, stage.state.leaves[: loops_outside_blocks(stage)]
    least = sum(leaf.kind == "data" for leaf in outside)  # a store has no reduction loops
    _, writer = stage_through_acc(schedule, stage)
    least = max(least, distribute_sync(given, stage, writer), 1)
    writer.change(attachment=stage.state.attachment)
    for leaf in stage.state.leaves[least - 1 :]:
        writer.change(attachment=ComputeAt(stage.id, leaf))
        placed = place_stages(schedule)
        depth = len(placed[writer].prefix)
        stored = cells_written(placed[stage], stage.tensor.name, depth)
        made = computed_box(placed[writer], stage.tensor.name, depth).intersect_domain(stored.domain())
        if made.is_equal(stored):
            break  # else the innermost loop remains, of which an iteration stores one cell
    return writer
