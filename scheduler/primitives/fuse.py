"""``fuse``: two adjacent loops become one."""

from dataclasses import replace

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike, Fuse, LoopAxis


def fuse(stage: EditedStage, outer: "AxisLike", inner: "AxisLike") -> LoopAxis:
    """Fuse two loops, the second directly inside the first.

    Before::

        C:
          band i [8]
          band j [6]
          time [0, i, 0, j, 0]

    After ``f = s[C].fuse(i, j)``::

        C:
          band i.j [8×6]
          time [0, i.j, 0]

    A loop nest shows the two original loops in place of the fused one, so that every index stays linear; for a split of
    it, the corresponding values of the two.

    Returns the fused loop. Raises ScheduleError if the loops are not adjacent in this order, or one is a data loop and
    the other a reduction.
    """
    first, second = stage.find(outer, "fuse"), stage.find(inner, "fuse")
    state = stage.state
    position = state.leaves.index(first)
    if state.leaves[position + 1 : position + 2] != (second,):
        loops = ", ".join(leaf.name for leaf in state.leaves)
        raise ScheduleError(
            f"axes of fuse on stage {stage.name} must be a loop and the one directly inside it, not {first.name!r} and "
            f"{second.name!r}: the loops are {loops}. Bring them together with reorder first.",
            kind="argument",
        )
    if first.kind != second.kind:
        raise ScheduleError(
            f"axes of fuse on stage {stage.name} must be two data loops or two reduction loops, not {first.name!r} "
            f"({first.kind}) and {second.name!r} ({second.kind}).",
            kind="limit",
        )
    fused = LoopAxis(f"{first.name}.{second.name}", first.kind)
    leaves = (*state.leaves[:position], fused, *state.leaves[position + 2 :])
    pragma_axis = fused if state.pragma_axis in (first, second) else state.pragma_axis
    unrolled = state.unrolled | {fused} if state.unrolled & {first, second} else state.unrolled
    new = replace(
        state,
        leaves=leaves,
        relations=(*state.relations, Fuse(first, second, fused)),
        pragma_axis=pragma_axis,
        unrolled=unrolled,
    )
    commit(stage.schedule, {stage: new}, "fuse", renamed={first: fused, second: fused})
    return fused
