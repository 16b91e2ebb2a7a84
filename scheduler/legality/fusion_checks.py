"""Loops that stages share must run one for one, and be loops that both can run together."""

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.fused_loops import shares_reduction
from lathe.scheduler.loop_ir.stage_loops import stage_loops
from lathe.scheduler.schedule_ir.loops import AffineMap, Fuse, LoopAxis, Relation, made_by, replaced_by
from lathe.scheduler.schedule_ir.schedule import StageView
from lathe.scheduler.schedule_ir.stage import StageState
from lathe.scheduler.schedule_ir.user_buffers import outlives_iteration


def check_together(stage: StageView, command: str) -> None:
    """Raises ScheduleError unless the loops that the stage shares with its host can be run together."""
    attachment = stage.state.attachment
    assert attachment is not None
    host = stage.schedule.at(attachment)
    where = f"loops that stage {stage.name} shares with {host.name}"
    placed = host.state.attachment
    if placed is not None and not placed.loops:
        raise ScheduleError(
            f"{where} must be loops of a stage that is computed whole, but {host.name} is computed at loop "
            f"{placed.axis.name} of {stage.schedule.at(placed).name} ({command}). Undo that with compute_root.",
            kind="limit",
        )
    count = host.state.leaves.index(attachment.axis) + 1 if attachment.axis in host.state.leaves else 0
    if count != len(attachment.loops) or stage.state.leaves[:count] != attachment.loops:
        names = ", ".join(loop.name for loop in attachment.loops)
        raise ScheduleError(
            f"{where} must stay their outermost loops, one for one, not be changed on one side ({names} of "
            f"{stage.name}, down to {attachment.axis.name} of {host.name}; {command}). Change the loops first, and put "
            "the stages together afterwards.",
            kind="limit",
        )
    if stage.state.computation.reduce_axes and stage_loops(stage.state, _extents(stage.state)).is_mixed():
        raise ScheduleError(
            f"{where} must each be of data axes or of the reduction of {stage.name}, not of both ({command}). Let "
            f"{host.name} share the loops of {stage.name} instead.",
            kind="limit",
        )
    if any(_leads_across_sums(relation) for relation in host.state.relations):
        raise ScheduleError(
            f"{where} must each be of data axes or of the reduction of {host.name}, not of both ({command}). Leave "
            "them as they are, or share loops outside the reduction.",
            kind="limit",
        )
    if shares_reduction(stage) and not outlives_iteration(stage):
        raise ScheduleError(
            f"scope of stage {stage.name} must be dram to run its reduction in loops that it shares with {host.name}, "
            f"not {stage.state.scope!r}, where a buffer belongs to one iteration ({command}). Share loops outside the "
            "reduction.",
            kind="legality",
        )
    for each, loops in ((stage, attachment.loops), (host, host.state.leaves[:count])):
        for loop in loops:
            if each is host and _is_part_of_fused(each.state, loop):
                raise ScheduleError(
                    f"{where} must be loops of {each.name} that a fuse has made as they are, or none, not "
                    f"{loop.name}, which other commands have made of a fused one ({command}). Let {each.name} share "
                    f"the loops of {stage.name} instead, or fuse last.",
                    kind="limit",
                )
            if loop in each.state.emitted_leaves():
                raise ScheduleError(
                    f"{where} must be outside the nest that emit_insn gives to rule {each.state.pragma!r}, not "
                    f"{loop.name} of {each.name} ({command}). Put the pragma on an inner loop.",
                    kind="machine",
                )


def _leads_across_sums(relation: Relation) -> bool:
    """Whether a loop of a reduction decides on elements, too, by an affine map of the loops of a stage that shares it.

    No command on the stage itself makes such a map, and the kind of a loop no longer says what it runs over.
    """
    if not isinstance(relation, AffineMap):
        return False
    rows = zip(relation.parents, relation.inverse, strict=True)
    data = [row for parent, row in rows if parent.kind == "data"]
    return any(row[n] for row in data for n, child in enumerate(relation.children) if child.kind == "reduce")


def _extents(state: StageState) -> dict[LoopAxis, int]:
    return {root: root.source.extent for root in state.roots if root.source is not None}


def _is_part_of_fused(state: StageState, loop: LoopAxis) -> bool:
    wanted = {loop}
    for relation in reversed(state.relations):
        if wanted & set(made_by(relation)):
            if isinstance(relation, Fuse):
                return relation.fused is not loop
            wanted |= set(replaced_by(relation))
    return False
