"""``separate``: the full tiles of a loop and the remainder become separate iterations."""

from dataclasses import replace

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.compute_locations import loop_extent
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.primitives.unimodular import checked_integer
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike, LoopAxis, Split


def separate(stage: EditedStage, axis: "AxisLike", factor: int) -> tuple[LoopAxis, LoopAxis]:
    """Split a loop after the last whole multiple of ``factor`` iterations.

    Before::

        for i in 0..60:
          C[i] = A[i] + 1

    After ``p, ii = s[C].separate(i, 16)``::

        for ip in 0..1:
          for ii in 0..48:
            C[48*ip + ii] = A[48*ip + ii] + 1
        for ip in 1..2:
          for ii in 0..12:
            C[48*ip + ii] = A[48*ip + ii] + 1

    Iteration 0 of the outer loop has the full tiles, iteration 1 the remainder; there is no remainder if the factor
    divides the extent. Tails are peeled anyway when loops are partitioned, each next to its full tile: here ``reorder``
    can bring the new loop outside, so that all full tiles come before any partial one. With numbers for the parameters
    of a program there may be no full tile; then the only iteration is the remainder.

    Returns the outer loop and the loop inside. Raises ScheduleError if the axis is not a present loop of this stage,
    the factor is not a positive integer, or it exceeds the extent. Tiramisu's separate.
    """
    target = stage.find(axis, "separate")
    factor = checked_integer(factor, f"factor of axis {target.name}", "separate", stage, 1)
    extent = loop_extent(stage, target)
    if factor > extent and not stage.schedule.replaying:
        raise ScheduleError(
            f"factor of axis {target.name} of separate on stage {stage.name} must be at most its extent {extent}, not "
            f"{factor}: there is no full tile.",
            kind="argument",
        )
    state = stage.state
    part, inner = LoopAxis(f"{target.name}p", target.kind), LoopAxis(f"{target.name}i", target.kind)
    position = state.leaves.index(target)
    relation = Split(target, part, inner, extent // factor * factor or extent)
    new = replace(
        state,
        leaves=(*state.leaves[:position], part, inner, *state.leaves[position + 1 :]),
        relations=(*state.relations, relation),
        pragma_axis=part if state.pragma_axis is target else state.pragma_axis,
        unrolled=state.unrolled | {part, inner} if target in state.unrolled else state.unrolled,
    )
    commit(stage.schedule, {stage: new}, "separate", renamed={target: inner})
    return part, inner
