"""Names for stages that commands and passes add."""

from collections.abc import Collection
from operator import attrgetter

from lathe.scheduler.schedule_ir.schedule import ScheduleView

_NAME = attrgetter("computation.name")


def fresh_name(schedule: ScheduleView, wanted: str, others: Collection[str] = ()) -> str:
    """``wanted``, or with a number behind it where a stage, an input or one of ``others`` bears that name already."""
    state = schedule.state
    taken = {*others, *map(_NAME, state.stages.values())}
    taken |= {tensor.name for tensor in state.tables.readers}
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}{count}"
    return name
