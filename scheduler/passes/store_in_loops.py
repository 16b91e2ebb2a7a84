"""What stages that run in the loops of others keep in DRAM: computed in acc, iteration by iteration, and stored.

No instruction computes in DRAM. A stage whose values stay there, while others run in its loops, becomes two: one in
acc, which computes what an iteration makes, and the stage itself, which copies it out.
"""

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from lathe.frontend.expressions import Read
from lathe.scheduler.algorithm.patterns import factors
from lathe.scheduler.algorithm.rewrite import copy_of, renamed_axes
from lathe.scheduler.algorithm.undefined import where_defined
from lathe.scheduler.errors import BuildError, LegalityError
from lathe.scheduler.legality.check import check_reads
from lathe.scheduler.nest.cycles import circles, read_later, shared_loops, walked_dimensions
from lathe.scheduler.nest.instances import cells_made, cells_written
from lathe.scheduler.nest.map_by_kind import relations_by_kind
from lathe.scheduler.nest.place import place_stages
from lathe.scheduler.nest.shared_loops import shares_reduction
from lathe.scheduler.passes.load_once import forward, is_near, only_moves, separate_choices, settle_choices
from lathe.scheduler.passes.split_states import separate_states
from lathe.scheduler.stage import Stage
from lathe.scheduler.state.names import fresh_name
from lathe.scheduler.state.stage import DRAM, Attachment, LoopAxis, StageState, initial_state
from lathe.scheduler.state.storage import values_stay

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule


def store_shared(schedule: "Schedule") -> None:
    """Give every stage in DRAM that shares its loops a place that the machine has, in place.

    What only later stages of the same iteration read goes to a scratchpad; the rest is computed in acc and stored.
    """
    _check_reductions(schedule)
    made: list[tuple[Stage, Stage]] = []
    if schedule.circular:
        separate_states(schedule)
        settle_choices(schedule)
        _leave_out_unread(schedule)
        separate_choices(schedule)
    for group in circles(schedule) if schedule.circular else []:
        for stage in group:
            stage.state = replace(stage.state, walked=walked_dimensions(stage))
            if _is_shared(stage) and not _stays(stage, group):
                stage.state = replace(stage.state, scope=_scope(stage))
        host = group[-1]
        if host.state.scope == DRAM and host.state.attachment is None and not is_store(host):
            made.append((_through_acc(host), host))
    _follow_hosts(schedule)
    for stage in list(schedule.stages):
        if _is_shared(stage) and not is_store(stage):
            made.append((_through_acc(stage), stage))
    for writer, store in made:
        forward(schedule, writer, store)


def _leave_out_unread(schedule: "Schedule") -> None:
    """Take out copies whose readers turned out never to read them."""
    for stage in reversed(list(schedule.stages)):
        needed = any(schedule.readers(tensor) or tensor in schedule.outputs for tensor in stage.state.tensors)
        if stage.state.copies is not None and not needed and not schedule.attached(stage):
            schedule.stages.remove(stage)


def _check_reductions(schedule: "Schedule") -> None:
    """Raises BuildError where what is stored would be made, or read, in the middle of a reduction."""
    for stage in schedule.stages:
        place = stage.state.attachment
        if place is None or not place.loops:
            continue
        if shares_reduction(stage):
            raise BuildError(
                f"loops that stage {stage.name} shares with {place.stage.name} must be of its data axes for a machine, "
                "which stores what a reduction has made when it is whole. Share loops outside the reduction.",
                kind="machine",
            )
        host = place.stage.state.leaves[: len(place.loops)]
        if stage.state.scope == DRAM and any(loop.kind == "reduce" for loop in host):
            raise BuildError(
                f"stage {stage.name} must live in a scratchpad to run in the reduction of {place.stage.name} on a "
                f"machine, not in dram. Say where with s[{stage.name}].set_scope.",
                kind="limit",
            )
        if any(loop.kind == "reduce" for loop in host) and not _serves_others(stage, place):
            raise BuildError(
                f"values of stage {stage.name}, made in reduction loop {place.axis.name} of {place.stage.name} on a "
                f"machine, must be read by others only where {place.stage.name} reads them, not elsewhere. Share loops "
                "outside the reduction.",
                kind="limit",
            )


def _serves_others(stage: Stage, place: Attachment) -> bool:
    """Whether values that stay are all there for later readers where only what a sum reads is made."""
    if stage.state.storage is None or not values_stay(stage):
        return True
    given = stage.state
    stage.state = replace(given, attachment=Attachment(place.stage, place.axis))
    try:
        check_reads(stage.schedule, "build", {stage})
    except LegalityError:
        return False
    finally:
        stage.state = given
    return True


def _follow_hosts(schedule: "Schedule") -> None:
    """Let what stays in DRAM share the loops that its host shares, where ``settle`` computes the host in place."""
    places = {stage: stage.state.attachment for stage in schedule.stages if stage.state.scope == DRAM}
    for stage, place in places.items():
        while place is not None and place.loops and not _keeps_its_loops(place.stage):
            place = _shared_above(stage, place)
        if place is not stage.state.attachment:
            stage.state = replace(stage.state, attachment=place)


def _keeps_its_loops(host: Stage) -> bool:
    """Whether the loops of a stage that others share are there for the machine: its own, or where its values stay."""
    place = host.state.attachment
    return place is None or not place.loops or host.state.scope == DRAM or values_stay(host)


def _shared_above(stage: Stage, place: Attachment) -> Attachment:
    """The loops that a stage has in common with the host of its host; it comes before its host in them, as whole."""
    above = place.stage.state.attachment
    assert above is not None
    count = min(len(place.loops), len(above.loops))
    if count < len(place.loops) and stage.state.storage is not None:
        raise BuildError(
            f"stage {stage.name} must share no more loops with {place.stage.name} than that with {above.stage.name}, "
            f"{count}, to be stored in {stage.state.storage} on a machine, not {len(place.loops)}. Leave out store_in, "
            "or share fewer loops.",
            kind="limit",
        )
    return Attachment(above.stage, above.stage.state.leaves[count - 1], place.loops[:count])


def _is_shared(stage: Stage) -> bool:
    """Whether a stage in DRAM runs together with another, and nobody has said how its chunks become instructions."""
    place = stage.state.attachment
    if place is None or stage.state.scope != DRAM or stage.state.pragma is not None:
        return False
    return bool(place.loops) or can_be_kept(stage, place)


def can_be_kept(stage: Stage, place: Attachment) -> bool:
    """Whether what a loop computes of a stage each iteration can store: none in a sum or for a part of a host."""
    host = place.stage.state
    whole = host.scope == DRAM and host.attachment is None
    guests = [guest.state.attachment for guest in stage.schedule.attached(stage)]
    sums = place.axis.kind == "reduce" or any(guest and guest.axis.kind == "reduce" for guest in guests)
    return whole and not sums


def is_store(stage: Stage) -> bool:
    """Whether a stage copies out of a scratchpad already."""
    body = stage.state.computation.bodies[0]
    return isinstance(body, Read) and stage.schedule.scope_of(body.tensor) != DRAM


def _stays(stage: Stage, group: list[Stage]) -> bool:
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
    return _is_operand(stage) and not only_moves(stage.state.computation.bodies[0])


def _is_operand(stage: Stage) -> bool:
    """Whether matrix products read a stage as int8."""
    for reader in stage.schedule.readers(stage.tensor):
        if any(read.tensor is stage.tensor for read in factors(reader.state.computation) or ()):
            return True
    return False


def _scope(stage: Stage) -> str:
    return "inp" if _is_operand(stage) else "acc"


def _through_acc(stage: Stage) -> Stage:
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
        writer.state = replace(writer.state, attachment=Attachment(stage, leaf))
        placed = place_stages(schedule)
        depth = len(placed[writer].prefix)
        stored = cells_written(placed[stage], stage.tensor.name, depth)
        made = cells_made(placed[writer], stage.tensor.name, depth).intersect_domain(stored.domain())
        if made.is_equal(stored):
            break  # in the innermost loop it is one cell, and nothing is lost where others in the loop go on
    return writer


def write_through_acc(schedule: "Schedule", stage: Stage, scope: str = "acc") -> tuple[Stage, Stage]:
    """``cache_write`` that also takes a stage whose loops were given: data loops stay with the copy."""
    state = stage.state
    computation = renamed_axes(state.computation, fresh_name(schedule, f"{state.tensor.name}.{scope}"))
    writer = Stage(
        schedule,
        replace(initial_state(computation, scope), lanes=state.lanes, walked=state.walked, on_alu=state.on_alu),
    )
    reductions, data_relations = relations_by_kind(stage)
    reduce_leaves = [leaf for leaf in state.leaves if leaf.kind == "reduce"]
    reduce_roots = [root for root in state.roots if root.kind == "reduce"]
    if reductions is None:
        reductions, reduce_leaves = (), reduce_roots
    if reductions or any(leaf.kind == "reduce" for leaf in state.kept_leaves):
        data_roots = [root for root in writer.state.roots if root.kind == "data"]
        writer.state = replace(
            writer.state,
            roots=(*data_roots, *reduce_roots),
            leaves=(*data_roots, *reduce_leaves),
            relations=reductions,
        )
    copy = copy_of(writer.tensor, state.computation.name, state.computation.axes, whole=True)
    copy = where_defined(copy, state.computation)
    stage.state = replace(
        state,
        computation=copy,
        roots=tuple(root for root in state.roots if root.kind == "data"),
        leaves=tuple(leaf for leaf in state.leaves if leaf.kind == "data"),
        relations=data_relations,
        copies=writer.tensor,
    )
    position = schedule.stages.index(stage)
    schedule.stages.insert(position, writer)
    return stage, writer


def keep_loops(given: StageState, sink: Stage, writer: Stage) -> int:
    """Let what a schedule says of queues at loops go with the copy or the writer, whichever has the loop now.

    The writer's reduction loops up to there come outermost. Returns how many loops of the copy it must be inside of.
    """
    depth = 0
    threads: dict[str, dict[LoopAxis, int]] = {"data": {}, "reduce": {}}
    for leaf in given.kept_leaves:
        if leaf in given.threads:
            threads[leaf.kind][leaf] = given.threads[leaf]
        outside = given.leaves[: given.leaves.index(leaf) + 1]
        depth = max(depth, sum(each.kind == "data" for each in outside))
        if leaf.kind == "reduce":
            outermost = [each for each in outside if each.kind == "reduce"]
            rest = [each for each in writer.state.leaves if each not in outermost]
            writer.state = replace(writer.state, leaves=(*outermost, *rest))
    inner = tuple(each for each in given.signals if each.axis is not None and each.axis.kind == "reduce")
    outer = tuple(each for each in given.signals if each not in inner)
    sink.state = replace(sink.state, threads=MappingProxyType(threads["data"]), signals=outer)
    writer.state = replace(writer.state, threads=MappingProxyType(threads["reduce"]), signals=inner)
    return depth
