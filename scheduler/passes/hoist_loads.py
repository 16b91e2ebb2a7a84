"""Hoist the loads of loop-invariant inputs out of the loops of a recurrence, where the scratchpads have space."""

from lathe.scheduler.allocation.allocate_buffers import buffers_of
from lathe.scheduler.allocation.in_place_aliasing import find_aliases
from lathe.scheduler.errors import CapacityError
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.physical_layout import PhysicalLayout, physical_of
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.recurrences import recurrence_groups
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.target.target import Target


def hoist_loads(schedule: Edit, target: Target, loads: list[EditedStage]) -> None:
    """Move each load of a program input before the loops of all recurrences, unless the buffers no longer fit."""
    for stage in loads:
        if any(schedule.producer(read.tensor) is not None for read in stage.state.computation.reads):
            continue  # it loads computed values, perhaps of the same loops
        before = schedule.state
        stage.change(attachment=None)
        members = [schedule.stages.index(each) for group in recurrence_groups(schedule) for each in group]
        position = min(members, default=0)  # a stage that never reads its own values is in no recurrence
        if schedule.stages.index(stage) > position:
            schedule.insert(stage, before=schedule.stages[position])
        try:
            config = target.config
            layouts = assign_layouts(schedule, config).layouts
            physical: dict[StageView, PhysicalLayout] = {
                each: physical_of(each, layouts, config) for each in schedule.stages
            }
            nest = build_nest(schedule, largest_blocks=True)
            buffers_of(schedule, config, nest, physical, find_aliases(schedule, config))
        except CapacityError:
            schedule.reset_to(before)
