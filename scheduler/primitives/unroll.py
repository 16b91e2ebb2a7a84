"""``unroll``: the iterations of a loop become separate instructions or micro-ops."""

from dataclasses import replace

from lathe.scheduler.loop_ir.compute_locations import loop_extent
from lathe.scheduler.primitives.split import split
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.primitives.unimodular import checked_integer
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike, LoopAxis


def unroll(stage: EditedStage, axis: "AxisLike", factor: int | None = None) -> LoopAxis:
    """Unroll a loop.

    Before::

        C:
          band i [60]
          time [0, i, 0]

    After ``s[C].unroll(i)``::

        C:
          band i [60] @unroll
          time [0, i, 0]

    Loops outside the emitted nest are always unrolled in the instruction stream. Inside it, an unrolled loop of an
    instruction with operands is not one of its two hardware loops, but becomes micro-ops or instructions of its own;
    constants and immediates, which gain nothing from it, still use hardware loops.

    With a ``factor`` the loop is split, unless that is its extent, and the inner loop is unrolled. Returns the unrolled
    loop. Raises ScheduleError if the axis is not a present loop of this stage, or the factor is not a positive integer.
    """
    target = stage.find(axis, "unroll")
    if factor is not None:
        factor = checked_integer(factor, f"factor of axis {target.name}", "unroll", stage, 1)
        if loop_extent(stage, target) != factor:
            _, target = split(stage, target, factor=factor)
    commit(stage.schedule, {stage: replace(stage.state, unrolled=stage.state.unrolled | {target})}, "unroll")
    return target
