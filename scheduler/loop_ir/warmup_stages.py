"""Stages that are also computed in warm-up iterations, in which reuse buffers are filled."""

from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import same_loop


def runs_in_warmup(schedule: ScheduleView, stage: StageView) -> bool:
    """Whether a stage is also computed in warm-up iterations: it is a reuse buffer, or one at its loop needs it."""
    seen: set[StageView] = set()
    waiting = [stage]
    while waiting:
        current = waiting.pop()
        if current.state.reuse is not None:
            return True
        seen.add(current)
        waiting += [each for each in sibling_consumers(schedule, current) if each not in seen]
    return False


def sibling_consumers(schedule: ScheduleView, stage: StageView) -> list[StageView]:
    """The stages at the same compute location as a stage that consume it, themselves or by a stage in their loops."""
    found: list[StageView] = []
    for tensor in stage.state.tensors:
        for consumer in schedule.consumers(tensor):
            sibling: StageView | None = consumer
            while sibling is not None and not same_loop(sibling.state.attachment, stage.state.attachment):
                sibling = schedule.at(sibling.state.attachment) if sibling.state.attachment else None
            if sibling is not None and sibling is not stage:
                found.append(sibling)
    return found
