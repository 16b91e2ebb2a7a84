"""Live instances: those whose result is read. The others may compute from any values.

A stage computed in a loop is computed, or loaded, as a box around the cells that an iteration reads of it. In a
recurrence such a box may include cells that do not exist yet; what is computed from them is never read.
"""

from dataclasses import replace

import islpy as isl

from lathe.scheduler.loop_ir.active_iterations import executed_iterations
from lathe.scheduler.loop_ir.instances import cells_read, instances
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView

IN, OUT = isl.dim_type.in_, isl.dim_type.out


def restrict_to_live(schedule: ScheduleView, placed: dict[StageView, StageRegion]) -> dict[StageView, StageRegion]:
    """The regions, with those of scratchpad stages restricted to instances whose values are read in their loops."""
    found = dict(placed)
    for stage in reversed(schedule.stages):  # consumers first
        state, here = stage.state, placed[stage]
        fused = state.attachment is not None and bool(state.attachment.loops)
        if state.scope == DRAM or fused or state.reuse or state.storage is not None:
            continue
        needed = _read_inside(schedule, stage, found)
        if needed is None:
            continue
        executed, depth = instances(here), len(here.prefix)
        rank = len(state.computation.axes)
        writes = executed.project_out(OUT, rank, executed.dim(OUT) - rank).set_tuple_name(OUT, "cells")
        live = needed.insert_dims(IN, depth, len(here.loops.variables)).set_tuple_name(IN, "instance")
        found[stage] = replace(here, cached_instances=[executed.intersect_domain(writes.intersect(live).domain())])
    return found


def _read_inside(schedule: ScheduleView, stage: StageView, placed: dict[StageView, StageRegion]) -> isl.Map | None:
    """From the loops around a stage to the cells of it that are read in them; None if it is read elsewhere, too."""
    here = placed[stage]
    depth = len(here.prefix)
    needed: isl.Map | None = None
    for tensor in stage.state.tensors:
        for consumer in schedule.consumers(tensor):
            there = placed[consumer]
            if [*there.prefix, *there.loops.variables][:depth] != here.prefix:
                return None
            for read in consumer.state.computation.reads:
                if read.tensor is tensor:
                    cells = cells_read(there, read, depth, executed_iterations(there, placed))
                    cells = cells.set_tuple_name(IN, "instance").set_tuple_name(OUT, "cells")
                    needed = cells if needed is None else needed.union(cells)
    return needed
