"""Data of products lie in ``inp`` as they were stored, where what is loaded at a time is whole stored elements.

Of what it tiles, ``tile-groups`` has decided by its estimate; loops that others have given are decided here.
"""

from lathe.scheduler.errors import CapacityError
from lathe.scheduler.nest.build_nest import build_nest
from lathe.scheduler.nest.place import place_stages
from lathe.scheduler.state.edit import Edit, EditedStage
from lathe.scheduler.state.schedule import StageView
from lathe.scheduler.target.adjoining import adjoins, may_adjoin, stored_source, wastes
from lathe.scheduler.target.buffers import buffers_of
from lathe.scheduler.target.elements import Physical, adjoining, physical_of
from lathe.scheduler.target.lanes import LanePlan, plan_lanes
from lathe.scheduler.target.reused_cells import find_aliases
from lathe.scheduler.target.target import Target


def adjoin_elements(schedule: Edit, target: Target) -> None:
    """Let what one stored element holds adjoin in the buffers of data, in place, as far as these still fit."""
    if target.near.element.cols <= target.data.element.cols:
        return
    plan = plan_lanes(schedule, target.config)
    for stage in schedule.stages:
        decided = stage.state.adjoins
        if decided is False or stored_source(stage, target) is None:
            continue
        stage.change(adjoins=_adjoins(schedule, stage, target, plan))
        if decided is None and stage.state.adjoins and not _fits(schedule, target, plan):
            stage.change(adjoins=False)


def waits_for_adjoining(schedule: Edit, target: Target) -> str | None:
    """A load of which nobody has decided whether what one stored element holds adjoins in its buffer."""
    for stage in schedule.stages:
        if stage.state.adjoins is None and stored_source(stage, target) is not None:
            return f"{stage.name} loads stored elements, which adjoin or do not"
    return None


def _adjoins(schedule: Edit, stage: EditedStage, target: Target, plan: LanePlan) -> bool:
    decided = stage.state.adjoins
    stage.change(adjoins=None)
    form = physical_of(stage, plan.known, target.config)
    if not may_adjoin(form):
        return False
    together, placed = adjoining(form, stage, plan.known, target.config), place_stages(schedule)
    return adjoins(placed, stage, together) and (decided is True or not wastes(placed[stage], together))


def _fits(schedule: Edit, target: Target, plan: LanePlan) -> bool:
    config = target.config
    physical: dict[StageView, Physical] = {each: physical_of(each, plan.known, config) for each in schedule.stages}
    try:
        buffers_of(
            schedule, config, build_nest(schedule, largest_blocks=True), physical, find_aliases(schedule, config)
        )
    except CapacityError:
        return False
    return True
