"""Checks of loops that stages share: they must match one for one, and be fusible."""

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.fused_loops import fuses_reduction
from lathe.scheduler.loop_ir.stage_loops import stage_loops
from lathe.scheduler.schedule_ir.loops import AffineMap, Fuse, LoopAxis, Relation, created_loops, replaced_loops
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import StageState
from lathe.scheduler.schedule_ir.user_buffers import outlives_iteration


def check_together(stage: StageView, command: str) -> None:
    """Raises ScheduleError unless the loops that a stage shares with its enclosing stage can be fused."""
    attachment = stage.state.attachment
    assert attachment is not None
    anchor = stage.schedule.at(attachment)
    where = f"loops that stage {stage.name} shares with {anchor.name}"
    location = anchor.state.attachment
    if location is not None and not location.loops:
        raise ScheduleError(
            f"{where} must be loops of a stage at the root, but {anchor.name} is computed at loop {location.axis.name} "
            f"of {stage.schedule.at(location).name} ({command}). Move {anchor.name} out with compute_root.",
            kind="limit",
        )
    count = anchor.state.leaves.index(attachment.axis) + 1 if attachment.axis in anchor.state.leaves else 0
    if count != len(attachment.loops) or stage.state.leaves[:count] != attachment.loops:
        names = ", ".join(loop.name for loop in attachment.loops)
        raise ScheduleError(
            f"{where} must stay the outermost loops of both, one for one, not be changed in one stage only ({names} of "
            f"{stage.name}, down to {attachment.axis.name} of {anchor.name}; {command}). Change the loops first, and "
            "let the stages share them afterwards.",
            kind="limit",
        )
    if stage.state.computation.reduce_axes and stage_loops(stage.state, _extents(stage.state)).is_mixed():
        raise ScheduleError(
            f"{where} must each run over data axes or over the reduction of {stage.name}, not over both ({command}). "
            f"Let {anchor.name} share the loops of {stage.name} instead.",
            kind="limit",
        )
    if any(_mixes_data_and_reduction(relation) for relation in anchor.state.relations):
        raise ScheduleError(
            f"{where} must each run over data axes or over the reduction of {anchor.name}, not over both ({command}). "
            "Do not fuse data and reduction loops, or share only loops outside the reduction.",
            kind="limit",
        )
    if fuses_reduction(stage) and not outlives_iteration(stage):
        raise ScheduleError(
            f"scope of stage {stage.name} must be dram to share its reduction loops with {anchor.name}, not "
            f"{stage.state.scope!r}, where a buffer is freed after each iteration ({command}). Share loops outside the "
            "reduction.",
            kind="legality",
        )
    for each, loops in ((stage, attachment.loops), (anchor, anchor.state.leaves[:count])):
        for loop in loops:
            if each is anchor and _is_derived_from_fused(each.state, loop):
                raise ScheduleError(
                    f"{where} must not be derived from a fused loop, as {loop.name} of {each.name} is ({command}). Let "
                    f"{each.name} share the loops of {stage.name} instead, or fuse last.",
                    kind="limit",
                )
            if loop in each.state.emitted_leaves():
                raise ScheduleError(
                    f"{where} must be outside the nest that emit_insn gives to rule {each.state.pragma!r}, not "
                    f"{loop.name} of {each.name} ({command}). Put the pragma on an inner loop.",
                    kind="machine",
                )


def _mixes_data_and_reduction(relation: Relation) -> bool:
    """Whether a reduction loop also determines elements, by an affine map of the loops of a stage that shares it.

    No primitive on the stage itself creates such a map; the kind of a loop no longer says what it runs over.
    """
    if not isinstance(relation, AffineMap):
        return False
    rows = zip(relation.parents, relation.inverse, strict=True)
    data = [row for parent, row in rows if parent.kind == "data"]
    return any(row[n] for row in data for n, child in enumerate(relation.children) if child.kind == "reduce")


def _extents(state: StageState) -> dict[LoopAxis, int]:
    return {root: root.source.extent for root in state.roots if root.source is not None}


def _is_derived_from_fused(state: StageState, loop: LoopAxis) -> bool:
    derived = {loop}
    for relation in reversed(state.relations):
        if derived & set(created_loops(relation)):
            if isinstance(relation, Fuse):
                return relation.fused is not loop
            derived |= set(replaced_loops(relation))
    return False
