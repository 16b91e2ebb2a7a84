"""What stages that run in the loops of others keep in DRAM: computed in acc, iteration by iteration, and stored.

No instruction computes in DRAM. A stage whose values stay there, while others run in its loops, becomes two: one in
acc, which computes what an iteration makes, and the stage itself, which copies it out.
"""

from dataclasses import replace

from lathe.frontend.expr.nodes import Read
from lathe.scheduler.errors import BuildError, LegalityError
from lathe.scheduler.legality.flow_dependences import check_reads
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.fused_loops import shares_reduction
from lathe.scheduler.loop_ir.instances import cells_made, cells_written
from lathe.scheduler.loop_ir.recurrences import read_later, recurrence_groups, shared_loops, walked_dimensions
from lathe.scheduler.passes.forward_stores import is_near, read_where_made
from lathe.scheduler.passes.simplify_recurrence_selects import drop_settled_choices, load_choices
from lathe.scheduler.passes.split_recurrence_states import split_states
from lathe.scheduler.primitives.stage_through_acc import keep_loops, write_through_acc
from lathe.scheduler.rewriting.matchers import is_loadable, match_gemm_operands
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule import StageView
from lathe.scheduler.schedule_ir.stage import ComputeAt
from lathe.scheduler.schedule_ir.user_buffers import outlives_iteration
from lathe.scheduler.target.target import Target


def insert_writeback(schedule: Edit, target: Target) -> None:
    """Give every stage in DRAM that shares its loops a place that the machine has, in place.

    What only later stages of the same iteration read goes to a scratchpad; the rest is computed in acc and stored.
    """
    _check_reductions(schedule)
    made: list[tuple[EditedStage, EditedStage]] = []
    if schedule.has_recurrences:
        split_states(schedule)
        drop_settled_choices(schedule)
        _leave_out_unread(schedule)
        load_choices(schedule, target)
    for group in recurrence_groups(schedule) if schedule.has_recurrences else []:
        cycle = [schedule.own(stage) for stage in group]
        for stage in cycle:
            stage.change(sequential_dims=walked_dimensions(stage))
            if _is_shared(stage) and not _stays(stage, cycle):
                stage.change(scope=_scope(stage, target))
        host = cycle[-1]
        if host.state.scope == DRAM and host.state.attachment is None and not is_writeback(host):
            made.append((_through_acc(host), host))
    _follow_hosts(schedule)
    for stage in list(schedule.stages):
        if _is_shared(stage) and not is_writeback(stage):
            made.append((_through_acc(stage), stage))
    for writer, store in made:
        read_where_made(schedule, target, writer, store)


def _leave_out_unread(schedule: Edit) -> None:
    """Take out copies whose readers turned out never to read them."""
    for stage in reversed(list(schedule.stages)):
        needed = any(schedule.readers(tensor) or tensor in schedule.outputs for tensor in stage.state.tensors)
        if stage.state.copies is not None and not needed and not schedule.attached(stage):
            schedule.remove(stage)


def _check_reductions(schedule: Edit) -> None:
    """Raises BuildError where what is stored would be made, or read, in the middle of a reduction."""
    for stage in schedule.stages:
        place = stage.state.attachment
        if place is None or not place.loops:
            continue
        host = schedule.at(place)
        if shares_reduction(stage):
            raise BuildError(
                f"loops that stage {stage.name} shares with {host.name} must be of its data axes for a machine, "
                "which stores what a reduction has made when it is whole. Share loops outside the reduction.",
                kind="machine",
            )
        shared = host.state.leaves[: len(place.loops)]
        if stage.state.scope == DRAM and any(loop.kind == "reduce" for loop in shared):
            raise BuildError(
                f"stage {stage.name} must live in a scratchpad to run in the reduction of {host.name} on a "
                f"machine, not in dram. Say where with s[{stage.name}].set_scope.",
                kind="limit",
            )
        if any(loop.kind == "reduce" for loop in shared) and not _serves_others(stage, place):
            raise BuildError(
                f"values of stage {stage.name}, made in reduction loop {place.axis.name} of {host.name} on a "
                f"machine, must be read by others only where {host.name} reads them, not elsewhere. Share loops "
                "outside the reduction.",
                kind="limit",
            )


def _serves_others(stage: EditedStage, place: ComputeAt) -> bool:
    """Whether values that stay are all there for later readers where only what a sum reads is made."""
    if stage.state.storage is None or not outlives_iteration(stage):
        return True
    given = stage.state
    stage.put(replace(given, attachment=ComputeAt(place.host, place.axis)))
    try:
        check_reads(stage.schedule, "build", {stage})
    except LegalityError:
        return False
    finally:
        stage.put(given)
    return True


def _follow_hosts(schedule: Edit) -> None:
    """Let what stays in DRAM share the loops that its host shares, where the host is computed in place."""
    places = {stage: stage.state.attachment for stage in schedule.stages if stage.state.scope == DRAM}
    for stage, place in places.items():
        while place is not None and place.loops and not _keeps_its_loops(schedule.at(place)):
            place = _shared_above(stage, place)
        if place is not stage.state.attachment:
            stage.change(attachment=place)


def _keeps_its_loops(host: EditedStage) -> bool:
    """Whether the loops of a stage that others share are there for the machine: its own, or where its values stay."""
    place = host.state.attachment
    return place is None or not place.loops or host.state.scope == DRAM or outlives_iteration(host)


def _shared_above(stage: EditedStage, place: ComputeAt) -> ComputeAt:
    """The loops that a stage has in common with the host of its host; it comes before its host in them, as whole."""
    host = stage.schedule.at(place)
    above = host.state.attachment
    assert above is not None
    first = stage.schedule.at(above)
    count = min(len(place.loops), len(above.loops))
    if count < len(place.loops) and stage.state.storage is not None:
        raise BuildError(
            f"stage {stage.name} must share no more loops with {host.name} than that with {first.name}, "
            f"{count}, to be stored in {stage.state.storage} on a machine, not {len(place.loops)}. Leave out store_in, "
            "or share fewer loops.",
            kind="limit",
        )
    return ComputeAt(above.host, first.state.leaves[count - 1], place.loops[:count])


def _is_shared(stage: EditedStage) -> bool:
    """Whether a stage in DRAM runs together with another, and nobody has said how its chunks become instructions."""
    place = stage.state.attachment
    if place is None or stage.state.scope != DRAM or stage.state.pragma is not None:
        return False
    return bool(place.loops) or can_write_back(stage, place)


def can_write_back(stage: StageView, place: ComputeAt) -> bool:
    """Whether what a loop computes of a stage each iteration can store: none in a sum or for a part of a host."""
    host = stage.schedule.at(place).state
    whole = host.scope == DRAM and host.attachment is None
    guests = [guest.state.attachment for guest in stage.schedule.attached(stage)]
    sums = place.axis.kind == "reduce" or any(guest and guest.axis.kind == "reduce" for guest in guests)
    return whole and not sums


def is_writeback(stage: StageView) -> bool:
    """Whether a stage copies out of a scratchpad already."""
    body = stage.state.computation.bodies[0]
    return isinstance(body, Read) and stage.schedule.scope_of(body.tensor) != DRAM


def _stays(stage: EditedStage, group: list[EditedStage]) -> bool:
    """Whether values of a stage of a cycle are needed longer than an iteration, or outside its loops."""
    schedule = stage.schedule
    if any(tensor in schedule.outputs for tensor in stage.state.tensors) or len(stage.state.tensors) > 1:
        return True
    readers = schedule.readers(stage.tensor)
    if any(reader not in group for reader in readers) or read_later(schedule, stage):
        return True
    reads = [(reader, read) for reader in readers for read in reader.state.computation.reads]
    if not all(is_near(stage, reader, read) for reader, read in reads if read.tensor is stage.tensor):
        return True
    return _is_operand(stage) and not is_loadable(stage.state.computation.bodies[0])


def _is_operand(stage: EditedStage) -> bool:
    """Whether matrix products read a stage as int8."""
    for reader in stage.schedule.readers(stage.tensor):
        if any(read.tensor is stage.tensor for read in match_gemm_operands(reader.state.computation) or ()):
            return True
    return False


def _scope(stage: EditedStage, target: Target) -> str:
    return target.data.name if _is_operand(stage) else target.near.name


def _through_acc(stage: EditedStage) -> EditedStage:
    """Compute a stage in acc, inside the loops that others share, in the outermost where it is just what is stored."""
    schedule = stage.schedule
    if len(stage.state.tensors) > 1:
        names = ", ".join(tensor.name for tensor in stage.state.tensors)
        raise BuildError(
            f"stage {stage.name} must compute one tensor to be stored in loops that others are in, not {names}, on a "
            "machine, which computes one after the other. Give each output a computation of its own.",
            kind="limit",
        )
    for guest in schedule.attached(stage):
        place = guest.state.attachment
        if place is not None and place.axis.kind == "reduce":
            raise BuildError(
                f"stage {guest.name} must be computed in a data loop of {stage.name}, whose sum and store a machine "
                f"takes apart in loops that others share, not in its reduction loop {place.axis.name}. Compute it "
                "further out.",
                kind="limit",
            )
    given, outside = stage.state, stage.state.leaves[: shared_loops(stage)]
    least = sum(leaf.kind == "data" for leaf in outside)  # what is stored has no others
    _, writer = write_through_acc(schedule, stage)
    least = max(least, keep_loops(given, stage, writer), 1)
    for leaf in stage.state.leaves[least - 1 :]:
        writer.change(attachment=ComputeAt(stage.id, leaf))
        placed = place_stages(schedule)
        depth = len(placed[writer].prefix)
        stored = cells_written(placed[stage], stage.tensor.name, depth)
        made = cells_made(placed[writer], stage.tensor.name, depth).intersect_domain(stored.domain())
        if made.is_equal(stored):
            break  # in the innermost loop it is one cell, and nothing is lost where others in the loop go on
    return writer
