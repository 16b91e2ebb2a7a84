"""``split``: one loop becomes two."""

from dataclasses import replace
from typing import TYPE_CHECKING

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.state import LoopAxis, Split

if TYPE_CHECKING:
    from lathe.scheduler.stage import AxisLike, Stage


def split(
    stage: "Stage", axis: "AxisLike", factor: int | None = None, nparts: int | None = None
) -> tuple[LoopAxis, LoopAxis]:
    """Split a loop into an outer and an inner one of ``factor`` iterations (or an outer one of ``nparts``).

    The factor need not divide the extent: the remainder becomes chunks of its own when the loops are partitioned.
    Before::

        for i in 0..60:
          C[i] = A[i] + 1

    After ``io, ii = s[C].split(i, factor=16)``::

        for io in 0..4:
          for ii in 0..16:
            C[16*io + ii] = A[16*io + ii] + 1 while 16*io + ii < 60

    Returns the outer and the inner loop. Raises ScheduleError if the axis is not a present loop of this stage, or the
    factor is not a positive integer. In the manner of Halide and TVM.
    """
    target = stage.find(axis, "split")
    if (factor is None) == (nparts is None):
        raise ScheduleError(
            f"split of axis {target.name} of stage {stage.name} must be given either factor or nparts, not "
            f"{'both' if factor is not None else 'neither'}."
        )
    for name, value in (("factor", factor), ("nparts", nparts)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ScheduleError(
                f"{name} of split of axis {target.name} of stage {stage.name} must be a positive integer, "
                f"not {value!r}."
            )
    outer = LoopAxis(f"{target.name}o", target.kind)
    inner = LoopAxis(f"{target.name}i", target.kind)
    state = stage.state
    position = state.leaves.index(target)
    leaves = (*state.leaves[:position], outer, inner, *state.leaves[position + 1 :])
    pragma_axis = outer if state.pragma_axis is target else state.pragma_axis
    unrolled = state.unrolled | {outer, inner} if target in state.unrolled else state.unrolled
    new = replace(
        state,
        leaves=leaves,
        relations=(*state.relations, Split(target, outer, inner, factor, nparts)),
        pragma_axis=pragma_axis,
        unrolled=unrolled,
    )
    stage.schedule.commit({stage: new}, "split", renamed={target: inner})
    return outer, inner
