"""What the order says beyond what instructions know, settled before a schedule is completed for a machine.

A stage in a scratchpad that shares loops with its reader is, for the machine, computed where it is read: its buffer
holds what one iteration makes, and legality has shown that nobody needs more. One whose values stay for longer makes
all that it would alone, and keeps the loops as they are. A loop marked ``vectorize`` says which dimension fills the
lanes of elements.
"""

from dataclasses import replace
from types import MappingProxyType

from lathe.scheduler.errors import BuildError
from lathe.scheduler.loop_ir.compute_locations import loop_extent
from lathe.scheduler.loop_ir.fused_loops import running
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.loops import LoopAxis, Split, made_by, replaced_by
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageState, VectorLayout
from lathe.scheduler.schedule_ir.user_buffers import outlives_iteration
from lathe.scheduler.target.target import Target


def normalize_compute_at(schedule: Edit, target: Target) -> None:
    """Settle shared loops and lanes of a schedule in place. Raises BuildError where the machine cannot do it."""
    for stage in schedule.stages:
        for loop, mark in stage.state.annotations.items():
            if mark == "vectorize":
                _fill_lanes(stage, loop, target)
    places = {stage: _place(stage) for stage in schedule.stages if stage.state.attachment is not None}
    for stage, place in places.items():
        attachment = stage.state.attachment
        assert attachment is not None
        if not attachment.loops:
            stage.change(attachment=place)
            continue
        if stage.state.scope == DRAM or (stage.state.storage is not None and outlives_iteration(stage)):
            continue  # it keeps what each iteration makes, and its loops as they are
        stage.put(_alone(replace(stage.state, attachment=place), attachment.loops))


def _place(stage: EditedStage) -> ComputeAt:
    """The loop that a stage is computed in, as a loop of the stage that runs it on its own account."""
    attachment = stage.state.attachment
    assert attachment is not None
    host, axis = running(stage.schedule.at(attachment), attachment.axis)
    return ComputeAt(host.id, axis, region=attachment.region)


def _alone(state: StageState, shared: tuple[LoopAxis, ...]) -> StageState:
    """A stage whose outermost loops are those of its host: what is left of each loop inside."""
    leaves, relations, gone = list(state.leaves), list(state.relations), set(shared)
    early = dict(state.warmup)  # the host's loops have leads of their own
    for relation in reversed(state.relations):
        made = made_by(relation)
        if not gone & set(made):
            continue
        place = min((leaves.index(loop) for loop in made if loop in leaves and loop not in gone), default=0)
        kept = [loop for loop in leaves[:place] if loop not in made]
        leaves = [*kept, *replaced_by(relation), *(loop for loop in leaves[place:] if loop not in made)]
        relations.remove(relation)
        early = {loop: lead for loop, lead in early.items() if loop not in replaced_by(relation)}
    pragma = _instead(state, state.pragma_axis, leaves)
    threads = {_instead(state, loop, leaves): count for loop, count in state.threads.items()}
    signals = tuple(replace(each, axis=_instead(state, each.axis, leaves)) for each in state.signals)
    return replace(
        state,
        leaves=tuple(leaves),
        relations=tuple(relations),
        pragma_axis=pragma,
        signals=signals,
        threads=MappingProxyType({loop: count for loop, count in threads.items() if loop is not None}),
        unrolled=frozenset(loop for loop in state.unrolled if loop in leaves),
        warmup=MappingProxyType({loop: lead for loop, lead in early.items() if loop not in gone}),
    )


def _instead(state: StageState, loop: LoopAxis | None, leaves: list[LoopAxis]) -> LoopAxis | None:
    """The loop that is there again in place of one made of it."""
    for relation in reversed(state.relations):
        if loop is not None and loop not in leaves and loop in made_by(relation):
            loop = replaced_by(relation)[0]
    return loop


def _fill_lanes(stage: EditedStage, loop: LoopAxis, target: Target) -> None:
    lanes, block = loop_extent(stage, loop), target.near.element.cols
    if lanes != block:
        raise BuildError(
            f"lanes of loop {loop.name} of stage {stage.name} must be as many as {target.config.name}'s blocks have, "
            f"{block}, not {lanes}. Call vectorize with {block}.",
            kind="machine",
        )
    current = loop
    for relation in reversed(stage.state.relations):
        if current in made_by(relation):
            if not isinstance(relation, Split) or relation.inner is not current:
                raise BuildError(
                    f"lanes of loop {loop.name} of stage {stage.name} must be neighbours along one axis, not what "
                    "other commands have made of several. Call vectorize on an axis, or on the inner part of its "
                    "split.",
                    kind="limit",
                )
            current = relation.parent
    dim = [root for root in stage.state.roots if root.kind == "data"].index(current)
    rows = stage.state.lanes.rows if stage.state.lanes is not None else None
    stage.change(lanes=VectorLayout(rows, dim))
