"""Names for stages that commands and passes add."""

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule


def fresh_name(schedule: "Schedule", wanted: str, others: Collection[str] = ()) -> str:
    """``wanted``, or with a number behind it where a stage, an input or one of ``others`` bears that name already."""
    taken = {*others, *(stage.name for stage in schedule.stages)}
    taken |= {read.tensor.name for stage in schedule.stages for read in stage.state.computation.reads}
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}{count}"
    return name
