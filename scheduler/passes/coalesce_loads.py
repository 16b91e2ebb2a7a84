"""Coalesce loads: ``inp`` vectors cut from one wider DRAM vector stay contiguous, so that one LOAD row has them all.

``tile-and-fuse`` decides this by its cost model for the stages that it tiles; loads in users' loops are decided here.
"""

from lathe.scheduler.allocation.allocate_buffers import buffers_of
from lathe.scheduler.allocation.in_place_aliasing import find_aliases
from lathe.scheduler.errors import CapacityError
from lathe.scheduler.layout.layout_assignment import LayoutAssignment, assign_layouts
from lathe.scheduler.layout.physical_layout import PhysicalLayout, contiguous_layout, physical_of
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.target.target import Target
from lathe.scheduler.tiling.contiguous_operands import (
    can_be_contiguous,
    has_contiguous_groups,
    stored_source,
    wastes_lanes,
)


def coalesce_loads(schedule: Edit, target: Target) -> None:
    """Mark loads of GEMM data as contiguous, in place, that load whole stored vectors, if the buffers still fit."""
    if target.acc.vector_type.cols <= target.data.vector_type.cols:
        return
    plan = assign_layouts(schedule, target.config)
    for stage in schedule.stages:
        decided = stage.state.contiguous
        if decided is False or stored_source(stage, target) is None:
            continue
        stage.change(contiguous=_adjoins(schedule, stage, target, plan))
        if decided is None and stage.state.contiguous and not _fits(schedule, target, plan):
            stage.change(contiguous=False)


def find_undecided_load(schedule: Edit, target: Target) -> str | None:
    """A load of stored vectors that is marked neither as contiguous nor as not contiguous."""
    for stage in schedule.stages:
        if stage.state.contiguous is None and stored_source(stage, target) is not None:
            return f"{stage.name} loads stored vectors, and is marked neither as contiguous nor as not contiguous"
    return None


def _adjoins(schedule: Edit, stage: EditedStage, target: Target, plan: LayoutAssignment) -> bool:
    decided = stage.state.contiguous
    stage.change(contiguous=None)
    layout = physical_of(stage, plan.layouts, target.config)
    if not has_contiguous_groups(layout):
        return False
    contiguous, placed = contiguous_layout(layout, stage, plan.layouts, target.config), place_stages(schedule)
    return can_be_contiguous(placed, stage, contiguous) and (
        decided is True or not wastes_lanes(placed[stage], contiguous)
    )


def _fits(schedule: Edit, target: Target, plan: LayoutAssignment) -> bool:
    config = target.config
    physical: dict[StageView, PhysicalLayout] = {
        each: physical_of(each, plan.layouts, config) for each in schedule.stages
    }
    try:
        buffers_of(
            schedule, config, build_nest(schedule, largest_blocks=True), physical, find_aliases(schedule, config)
        )
    except CapacityError:
        return False
    return True
