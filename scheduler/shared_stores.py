"""What stages that run in the loops of others keep in DRAM: computed in acc, iteration by iteration, and stored.

No instruction computes in DRAM. A stage whose values stay there, while others run in its loops, becomes two: one in
acc, which computes what an iteration makes, and the stage itself, which copies it out.
"""

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from lathe.frontend.expressions import Read
from lathe.scheduler.circular import circles, read_later, shared_loops, walked_dimensions
from lathe.scheduler.circular_operands import forward, only_moves, separate_choices
from lathe.scheduler.commands.cache import fresh_name
from lathe.scheduler.linear import bound_range
from lathe.scheduler.placement import place_stages
from lathe.scheduler.products import factors
from lathe.scheduler.rewrite import copy_of, renamed_axes
from lathe.scheduler.stage import Stage
from lathe.scheduler.state import DRAM, Attachment, Relation, initial_state, made_by

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule


def store_shared(schedule: "Schedule") -> None:
    """Give every stage in DRAM that shares its loops a place that the machine has, in place.

    What only later stages of the same iteration read goes to a scratchpad; the rest is computed in acc and stored.
    """
    made: list[tuple[Stage, Stage]] = []
    if schedule.circular:
        separate_choices(schedule)
    for group in circles(schedule) if schedule.circular else []:
        for stage in group:
            stage.state = replace(stage.state, walked=walked_dimensions(stage))
            if _is_shared(stage) and not _stays(stage, group):
                stage.state = replace(stage.state, scope=_scope(stage))
        host = group[-1]
        if host.state.scope == DRAM and host.state.attachment is None and not _is_store(host):
            made.append((_through_acc(host), host))
    for stage in list(schedule.stages):
        if _is_shared(stage) and not _is_store(stage):
            made.append((_through_acc(stage), stage))
    for writer, store in made:
        forward(schedule, writer, store)


def _is_shared(stage: Stage) -> bool:
    """Whether a stage in DRAM runs together with another, and nobody has said how its chunks become instructions."""
    place = stage.state.attachment
    return place is not None and bool(place.loops) and stage.state.scope == DRAM and stage.state.pragma is None


def _is_store(stage: Stage) -> bool:
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
    least = max(shared_loops(stage), 1)
    _, writer = write_through_acc(schedule, stage)
    best: tuple[float, Attachment] | None = None
    for leaf in stage.state.leaves[least - 1 :]:
        place = Attachment(stage, leaf)
        writer.state = replace(writer.state, attachment=place)
        placed = place_stages(schedule)
        inner = stage.state.leaves[stage.state.leaves.index(leaf) + 1 :]
        stored = prod(placed[stage].loops.extents[each] for each in inner)
        computed = prod(max(bound_range(extent, placed[writer].box)[1], 1) for extent in placed[writer].extent)
        if best is None or computed / stored < best[0]:
            best = computed / stored, place
    assert best is not None, f"{stage.name} has no loop"
    writer.state = replace(writer.state, attachment=best[1])
    return writer


def write_through_acc(schedule: "Schedule", stage: Stage, scope: str = "acc") -> tuple[Stage, Stage]:
    """``cache_write`` that also takes a stage whose loops were given: data loops stay with the copy."""
    state = stage.state
    computation = renamed_axes(state.computation, fresh_name(schedule, f"{state.tensor.name}.{scope}"))
    writer = Stage(
        schedule,
        replace(initial_state(computation, scope), lanes=state.lanes, walked=state.walked, on_alu=state.on_alu),
    )
    reduce_relations = tuple(r for r in state.relations if _kind(r) == "reduce")
    reduce_leaves = [leaf for leaf in state.leaves if leaf.kind == "reduce"]
    reduce_roots = [root for root in state.roots if root.kind == "reduce"]
    if reduce_relations or any(leaf.kind == "reduce" for leaf in state.kept_leaves):
        data_roots = [root for root in writer.state.roots if root.kind == "data"]
        writer.state = replace(
            writer.state,
            roots=(*data_roots, *reduce_roots),
            leaves=(*data_roots, *reduce_leaves),
            relations=reduce_relations,
        )
    copy = copy_of(writer.tensor, state.computation.name, state.computation.axes, whole=True)
    stage.state = replace(
        state,
        computation=copy,
        roots=tuple(root for root in state.roots if root.kind == "data"),
        leaves=tuple(leaf for leaf in state.leaves if leaf.kind == "data"),
        relations=tuple(r for r in state.relations if _kind(r) == "data"),
        copies=writer.tensor,
    )
    position = schedule.stages.index(stage)
    schedule.stages.insert(position, writer)
    return stage, writer


def _kind(relation: Relation) -> str:
    return made_by(relation)[0].kind
