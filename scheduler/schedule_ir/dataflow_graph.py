"""Producers and consumers of a stage, and what is reachable along them."""

from collections.abc import Callable, Iterable

from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView


def producers_of(schedule: ScheduleView, stage: StageView) -> list[StageView]:
    """The producers of what a stage reads, the stage itself included if it reads its own values."""
    found = (schedule.producer(read.tensor) for read in stage.state.computation.reads)
    return list(dict.fromkeys(producer for producer in found if producer is not None))


def consumers_of(schedule: ScheduleView, stage: StageView) -> list[StageView]:
    """The consumers of a stage's tensors, in schedule order."""
    tensors = stage.state.tensors
    if len(tensors) == 1:
        return list(schedule.consumers(tensors[0]))
    readers = {reader for tensor in tensors for reader in schedule.consumers(tensor)}
    return [each for each in schedule.stages if each in readers]


def reachable(begin: Iterable[StageView], onward: Callable[[StageView], Iterable[StageView]]) -> set[StageView]:
    """The stages that are reachable along ``onward`` from some stages, these included."""
    found: set[StageView] = set()
    waiting = list(begin)
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            waiting += onward(current)
    return found
