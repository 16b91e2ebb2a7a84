"""Unique names for stages that primitives and passes add."""

from collections.abc import Collection
from operator import attrgetter

from lathe.scheduler.schedule_ir.schedule import ScheduleView

_NAME = attrgetter("computation.name")


def fresh_name(schedule: ScheduleView, wanted: str, others: Collection[str] = ()) -> str:
    """``wanted``, with a number appended if a stage, an input or one of ``others`` has that name."""
    state = schedule.state
    taken = {*others, *map(_NAME, state.stages.values())}
    taken |= {tensor.name for tensor in state.def_use.consumers}
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}{count}"
    return name
