"""``split``: one loop becomes two."""

from dataclasses import replace

from lathe.configs.errors import shown
from lathe.configs.integers import integer
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.compute_locations import loop_extent
from lathe.scheduler.loop_ir.fused_loops import fused_stages
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike, LoopAxis, Split
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import StageState


def split(
    stage: EditedStage, axis: "AxisLike", factor: int | None = None, nparts: int | None = None
) -> tuple[LoopAxis, LoopAxis]:
    """Split a loop into an outer and an inner one of ``factor`` iterations (or an outer one of ``nparts``).

    The factor need not divide the extent: partitioning makes the remainder chunks of its own. Before::

        for i in 0..60:
          C[i] = A[i] + 1

    After ``io, ii = s[C].split(i, factor=16)``::

        for io in 0..4:
          for ii in 0..16:
            C[16*io + ii] = A[16*io + ii] + 1 while 16*io + ii < 60

    Stages that share the loop with this one are split alike. Returns the outer and the inner loop. Raises ScheduleError
    if the axis is not a present loop of this stage, or the factor is not a positive integer. As in Halide and TVM.
    """
    target = stage.find(axis, "split")
    if (factor is None) == (nparts is None):
        raise ScheduleError(
            f"split of axis {target.name} of stage {stage.name} must be given either factor or nparts, not "
            f"{'both' if factor is not None else 'neither'}.",
            kind="argument",
        )
    for name, value in (("factor", factor), ("nparts", nparts)):
        if value is not None and (integer(value) or 0) < 1:
            raise ScheduleError(
                f"{name} of split of axis {target.name} of stage {stage.name} must be a positive integer, "
                f"not {shown(value)}.",
                kind="argument",
            )
    factor, nparts = integer(factor), integer(nparts)
    shared = fused_stages(stage, (target,))
    if nparts is not None and len(shared) > 1:  # by the longest loop, so that the shared iterations stay aligned
        longest = max(loop_extent(each, loop) for each, (loop,) in shared.items())
        factor, nparts = -(-longest // nparts), None
    changes: dict[StageView, StageState] = {}
    parts: dict[LoopAxis, tuple[LoopAxis, LoopAxis]] = {}
    for each, (loop,) in shared.items():
        outer, inner = parts[loop] = (LoopAxis(f"{loop.name}o", loop.kind), LoopAxis(f"{loop.name}i", loop.kind))
        state = each.state
        changes[each] = replace(
            state,
            leaves=tuple(part for leaf in state.leaves for part in parts.get(leaf, (leaf,))),
            relations=(*state.relations, Split(loop, outer, inner, factor, nparts)),
            pragma_axis=outer if state.pragma_axis is loop else state.pragma_axis,
            unrolled=state.unrolled | {outer, inner} if loop in state.unrolled else state.unrolled,
        )
    for each, state in changes.items():
        location = state.attachment
        if location is not None and location.loops:
            loops = tuple(part for loop in location.loops for part in parts.get(loop, (loop,)))
            axis = parts[location.axis][1] if location.axis in parts else location.axis
            changes[each] = replace(state, attachment=replace(location, axis=axis, loops=loops))
    commit(stage.schedule, changes, "split", renamed={loop: inner for loop, (_, inner) in parts.items()})
    return parts[target]
