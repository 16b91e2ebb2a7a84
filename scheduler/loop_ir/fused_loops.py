"""Stages that run in the same loops, each computing its own instances.

A stage placed with ``compute_at`` computes what an iteration of its host reads. A stage that runs together with another
keeps its own loops; the outermost of them are iterations of the host's loops, one by one, and a loop goes on until the
last of them has come to its end. (Tiramisu's ``after`` with a loop level.)
"""

from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.schedule import StageView


def shares_reduction(stage: StageView) -> bool:
    """Whether a stage runs loops of its reduction together with those of another: its sums are whole only behind."""
    attachment = stage.state.attachment
    return attachment is not None and any(loop.kind == "reduce" for loop in attachment.loops)


def sharing(stage: StageView, loops: tuple[LoopAxis, ...]) -> dict[StageView, tuple[LoopAxis, ...]]:
    """Every stage that runs all these loops of a stage together with it, itself included, with its own of each."""
    host, of_host = stage, loops
    attachment = host.state.attachment
    while attachment is not None and set(of_host) <= set(attachment.loops):
        places = [attachment.loops.index(loop) for loop in of_host]
        host = stage.schedule.at(attachment)
        of_host = tuple(host.state.leaves[place] for place in places)
        attachment = host.state.attachment
    found = {host: of_host}
    for each in reversed(stage.schedule.stages):  # hosts come after the stages in their loops
        attachment = each.state.attachment
        if attachment is None or (above := stage.schedule.at(attachment)) not in found:
            continue
        places = [above.state.leaves.index(loop) for loop in found[above]]
        if max(places, default=-1) < len(attachment.loops):
            found[each] = tuple(attachment.loops[place] for place in places)
    return found


def running(stage: StageView, loop: LoopAxis) -> tuple[StageView, LoopAxis]:
    """The stage that runs a loop of a stage on its own account, and its loop: others share it."""
    place = stage.state.attachment
    while place is not None and loop in place.loops:
        stage = stage.schedule.at(place)
        loop = stage.state.leaves[place.loops.index(loop)]
        place = stage.state.attachment
    return stage, loop
