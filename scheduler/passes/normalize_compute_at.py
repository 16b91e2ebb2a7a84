"""Normalise compute locations: turn loops that scratchpad stages share into plain compute_at; resolve vectorize marks.

A stage in a scratchpad that shares loops with its consumer is computed at the consumer: its buffer holds the values of
one iteration, and legality checks have shown that no others are needed. A stage whose values outlive the iteration
computes all its values and keeps its loops. A loop marked ``vectorize`` determines the dimension along the lanes.
"""

from dataclasses import replace
from types import MappingProxyType

from lathe.scheduler.errors import BuildError
from lathe.scheduler.loop_ir.compute_locations import loop_extent
from lathe.scheduler.loop_ir.fused_loops import fusion_root
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.loops import LoopAxis, Split, created_loops, replaced_loops
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageState, VectorLayout
from lathe.scheduler.schedule_ir.user_buffers import outlives_iteration
from lathe.scheduler.target.target import Target


def normalize_compute_at(schedule: Edit, target: Target) -> None:
    """Resolve shared loops and vectorize marks, in place. Raises BuildError for vectors that the machine lacks."""
    for stage in schedule.stages:
        for loop, mark in stage.state.annotations.items():
            if mark == "vectorize":
                _set_vector_layout(stage, loop, target)
    locations = {stage: _location_at_runner(stage) for stage in schedule.stages if stage.state.attachment is not None}
    for stage, location in locations.items():
        attachment = stage.state.attachment
        assert attachment is not None
        if not attachment.loops:
            stage.change(attachment=location)
            continue
        if stage.state.scope == DRAM or (stage.state.storage is not None and outlives_iteration(stage)):
            continue  # it stores the values of every iteration, in the loops that it has
        stage.put(_unfused(replace(stage.state, attachment=location), attachment.loops))


def _location_at_runner(stage: EditedStage) -> ComputeAt:
    """The loop that a stage is computed in, as a loop of the stage that really runs it, which may enclose the other."""
    attachment = stage.state.attachment
    assert attachment is not None
    runner, axis = fusion_root(stage.schedule.at(attachment), attachment.axis)
    return ComputeAt(runner.id, axis, region=attachment.region)


def _unfused(state: StageState, shared: tuple[LoopAxis, ...]) -> StageState:
    """The stage without its shared outermost loops: the splits and fuses that made these are undone."""
    leaves, relations, removed = list(state.leaves), list(state.relations), set(shared)
    warmup = dict(state.warmup)  # the loops of the enclosing stage have their own
    for relation in reversed(state.relations):
        new = created_loops(relation)
        if not removed & set(new):
            continue
        position = min((leaves.index(loop) for loop in new if loop in leaves and loop not in removed), default=0)
        outer = [loop for loop in leaves[:position] if loop not in new]
        leaves = [*outer, *replaced_loops(relation), *(loop for loop in leaves[position:] if loop not in new)]
        relations.remove(relation)
        warmup = {loop: lead for loop, lead in warmup.items() if loop not in replaced_loops(relation)}
    pragma = _original_loop(state, state.pragma_axis, leaves)
    threads = {_original_loop(state, loop, leaves): count for loop, count in state.threads.items()}
    signals = tuple(replace(each, axis=_original_loop(state, each.axis, leaves)) for each in state.sync_ops)
    return replace(
        state,
        leaves=tuple(leaves),
        relations=tuple(relations),
        pragma_axis=pragma,
        sync_ops=signals,
        threads=MappingProxyType({loop: count for loop, count in threads.items() if loop is not None}),
        unrolled=frozenset(loop for loop in state.unrolled if loop in leaves),
        warmup=MappingProxyType({loop: lead for loop, lead in warmup.items() if loop not in removed}),
    )


def _original_loop(state: StageState, loop: LoopAxis | None, leaves: list[LoopAxis]) -> LoopAxis | None:
    """The loop itself, or the one that it was made from if that has been restored."""
    for relation in reversed(state.relations):
        if loop is not None and loop not in leaves and loop in created_loops(relation):
            loop = replaced_loops(relation)[0]
    return loop


def _set_vector_layout(stage: EditedStage, loop: LoopAxis, target: Target) -> None:
    extent, block = loop_extent(stage, loop), target.acc.vector_type.cols
    if extent != block:
        raise BuildError(
            f"Loop {loop.name} of stage {stage.name} must have as many iterations as a vector of "
            f"{target.config.name} has lanes, {block}, not {extent}. Call vectorize with {block}.",
            kind="machine",
        )
    current = loop
    for relation in reversed(stage.state.relations):
        if current in created_loops(relation):
            if not isinstance(relation, Split) or relation.inner is not current:
                raise BuildError(
                    f"Cannot vectorise loop {loop.name} of stage {stage.name}: its iterations are not consecutive "
                    "along one axis, as a primitive other than split made the loop. Call vectorize on an axis, or on "
                    "the inner loop of its split.",
                    kind="limit",
                )
            current = relation.parent
    dim = [root for root in stage.state.roots if root.kind == "data"].index(current)
    rows = stage.state.vector_layout.rows if stage.state.vector_layout is not None else None
    stage.change(vector_layout=VectorLayout(rows, dim))
