"""Stages that are computed in the iterations in which reuse buffers fill."""

from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import same_place


def fills(schedule: ScheduleView, stage: StageView) -> bool:
    """Whether a stage is computed in the iterations that fill reuse buffers, too: it is one, or one reads it."""
    seen: set[StageView] = set()
    waiting = [stage]
    while waiting:
        current = waiting.pop()
        if current.state.reuse is not None:
            return True
        seen.add(current)
        waiting += [each for each in readers_beside(schedule, current) if each not in seen]
    return False


def readers_beside(schedule: ScheduleView, stage: StageView) -> list[StageView]:
    """The stages at the same loop as a stage that read it, or in whose loops one is that does."""
    found: list[StageView] = []
    for tensor in stage.state.tensors:
        for reader in schedule.readers(tensor):
            beside: StageView | None = reader
            while beside is not None and not same_place(beside.state.attachment, stage.state.attachment):
                beside = schedule.at(beside.state.attachment) if beside.state.attachment else None
            if beside is not None and beside is not stage:
                found.append(beside)
    return found
