"""Inputs of stages of a cycle are loaded once for all iterations, where there is room."""

from lathe.scheduler.errors import CapacityError
from lathe.scheduler.nest.build_nest import build_nest
from lathe.scheduler.nest.cycles import circles
from lathe.scheduler.state.edit import Edit, EditedStage
from lathe.scheduler.state.schedule import StageView
from lathe.scheduler.target.buffers import buffers_of
from lathe.scheduler.target.elements import Physical, physical_of
from lathe.scheduler.target.lanes import plan_lanes
from lathe.scheduler.target.reused_cells import find_aliases
from lathe.scheduler.target.target import Target


def load_once(schedule: Edit, target: Target, loads: list[EditedStage]) -> None:
    """Load inputs before the loops of a cycle, once for all iterations, as far as scratchpads have room."""
    for stage in loads:
        if any(schedule.maker(read.tensor) is not None for read in stage.state.computation.reads):
            continue  # made on the way, perhaps in the same loops
        before = schedule.state
        stage.change(attachment=None)
        in_circles = [schedule.stages.index(each) for group in circles(schedule) for each in group]
        place = min(in_circles, default=0)  # one that never reads what it makes is in none
        if schedule.stages.index(stage) > place:
            schedule.insert(stage, before=schedule.stages[place])
        try:
            config = target.config
            lanes = plan_lanes(schedule, config).known
            physical: dict[StageView, Physical] = {each: physical_of(each, lanes, config) for each in schedule.stages}
            nest = build_nest(schedule, largest_blocks=True)
            buffers_of(schedule, config, nest, physical, find_aliases(schedule, config))
        except CapacityError:
            schedule.become(before)
