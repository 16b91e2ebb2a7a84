"""Names for stages that commands and passes add."""

from collections.abc import Collection

from lathe.scheduler.state.schedule import ScheduleView


def fresh_name(schedule: ScheduleView, wanted: str, others: Collection[str] = ()) -> str:
    """``wanted``, or with a number behind it where a stage, an input or one of ``others`` bears that name already."""
    taken = {*others, *(stage.name for stage in schedule.stages)}
    taken |= {read.tensor.name for stage in schedule.stages for read in stage.state.computation.reads}
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}{count}"
    return name
