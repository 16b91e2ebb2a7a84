"""Which instances of parts make what somebody reads: the others may compute from anything.

A part is computed, or loaded, as a box around what an iteration of its loop reads of it. Of a circle, such a box may
take in cells that are not made yet; what becomes of them is read by nobody.
"""

from dataclasses import replace

import islpy as isl

from lathe.scheduler.loop_ir.active_iterations import carried_out
from lathe.scheduler.loop_ir.instances import cells_read, instances
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView

IN, OUT = isl.dim_type.in_, isl.dim_type.out


def without_unneeded(schedule: ScheduleView, placed: dict[StageView, StageRegion]) -> dict[StageView, StageRegion]:
    """The placements, those of parts in scratchpads with the instances only whose values are read in their loops."""
    found = dict(placed)
    for stage in reversed(schedule.stages):  # readers first
        state, here = stage.state, placed[stage]
        together = state.attachment is not None and bool(state.attachment.loops)
        if state.scope == DRAM or together or state.reuse or state.storage is not None:
            continue
        needed = _read_inside(schedule, stage, found)
        if needed is None:
            continue
        executed, depth = instances(here), len(here.prefix)
        rank = len(state.computation.axes)
        makes = executed.project_out(OUT, rank, executed.dim(OUT) - rank).set_tuple_name(OUT, "cells")
        around = needed.insert_dims(IN, depth, len(here.loops.variables)).set_tuple_name(IN, "instance")
        found[stage] = replace(here, found=[executed.intersect_domain(makes.intersect(around).domain())])
    return found


def _read_inside(schedule: ScheduleView, stage: StageView, placed: dict[StageView, StageRegion]) -> isl.Map | None:
    """From the loops around a stage to the cells that are read of it there; None where others read it, too."""
    here = placed[stage]
    depth = len(here.prefix)
    needed: isl.Map | None = None
    for tensor in stage.state.tensors:
        for reader in schedule.readers(tensor):
            there = placed[reader]
            if [*there.prefix, *there.loops.variables][:depth] != here.prefix:
                return None
            for read in reader.state.computation.reads:
                if read.tensor is tensor:
                    cells = cells_read(there, read, depth, carried_out(there, placed))
                    cells = cells.set_tuple_name(IN, "instance").set_tuple_name(OUT, "cells")
                    needed = cells if needed is None else needed.union(cells)
    return needed
