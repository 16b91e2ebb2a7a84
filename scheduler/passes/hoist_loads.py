"""Inputs of stages of a cycle are loaded once for all iterations, where there is room."""

from lathe.scheduler.allocation.allocate_buffers import buffers_of
from lathe.scheduler.allocation.in_place_aliasing import find_aliases
from lathe.scheduler.errors import CapacityError
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.physical_layout import PhysicalLayout, physical_of
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.recurrences import recurrence_groups
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.schedule import StageView
from lathe.scheduler.target.target import Target


def load_once(schedule: Edit, target: Target, loads: list[EditedStage]) -> None:
    """Load inputs before the loops of a cycle, once for all iterations, as far as scratchpads have room."""
    for stage in loads:
        if any(schedule.maker(read.tensor) is not None for read in stage.state.computation.reads):
            continue  # made on the way, perhaps in the same loops
        before = schedule.state
        stage.change(attachment=None)
        in_circles = [schedule.stages.index(each) for group in recurrence_groups(schedule) for each in group]
        place = min(in_circles, default=0)  # one that never reads what it makes is in none
        if schedule.stages.index(stage) > place:
            schedule.insert(stage, before=schedule.stages[place])
        try:
            config = target.config
            lanes = assign_layouts(schedule, config).known
            physical: dict[StageView, PhysicalLayout] = {
                each: physical_of(each, lanes, config) for each in schedule.stages
            }
            nest = build_nest(schedule, largest_blocks=True)
            buffers_of(schedule, config, nest, physical, find_aliases(schedule, config))
        except CapacityError:
            schedule.reset_to(before)
