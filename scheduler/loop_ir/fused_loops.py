"""Fused loops: stages that run in the same loops, each computing its own instances.

A stage placed with ``compute_at`` computes what an iteration of the enclosing stage reads. A stage that is fused with
another keeps its own loops: its outermost ones are executed iteration by iteration with loops of the enclosing stage,
as long as the longest of the fused loops. (Tiramisu's ``after`` with a loop level.)
"""

from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.schedule_state import StageView


def fuses_reduction(stage: StageView) -> bool:
    """Whether reduction loops of a stage are fused with another's, so that it is complete only after these loops."""
    attachment = stage.state.attachment
    return attachment is not None and any(loop.kind == "reduce" for loop in attachment.loops)


def fused_stages(stage: StageView, loops: tuple[LoopAxis, ...]) -> dict[StageView, tuple[LoopAxis, ...]]:
    """Every stage fused with a stage in all of these loops, itself included, with its own loops in the same order."""
    anchor, of_anchor = stage, loops
    attachment = anchor.state.attachment
    while attachment is not None and set(of_anchor) <= set(attachment.loops):
        depths = [attachment.loops.index(loop) for loop in of_anchor]
        anchor = stage.schedule.at(attachment)
        of_anchor = tuple(anchor.state.leaves[depth] for depth in depths)
        attachment = anchor.state.attachment
    found = {anchor: of_anchor}
    for each in reversed(stage.schedule.stages):  # enclosing stages come after those in their loops
        attachment = each.state.attachment
        if attachment is None or (above := stage.schedule.at(attachment)) not in found:
            continue
        depths = [above.state.leaves.index(loop) for loop in found[above]]
        if max(depths, default=-1) < len(attachment.loops):
            found[each] = tuple(attachment.loops[depth] for depth in depths)
    return found


def fusion_root(stage: StageView, loop: LoopAxis) -> tuple[StageView, LoopAxis]:
    """The stage whose loop a loop of a stage is fused into, and that loop; stage and loop themselves if not fused."""
    location = stage.state.attachment
    while location is not None and loop in location.loops:
        stage = stage.schedule.at(location)
        loop = stage.state.leaves[location.loops.index(loop)]
        location = stage.state.attachment
    return stage, loop
