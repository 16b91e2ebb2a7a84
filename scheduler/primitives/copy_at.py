"""``copy_at``: an explicit copy into a scratchpad of what one loop iteration reads."""

from lathe.frontend import Tensor
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.primitives.cache import cache_read
from lathe.scheduler.primitives.reuse_at import stages_inside
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike
from lathe.scheduler.schedule_ir.memories import ACC


def copy_at(schedule: Edit, tensor: Tensor, stage: Tensor | EditedStage, axis: "AxisLike", scope: str = ACC) -> Tensor:
    """Copy what each iteration of a loop reads of ``tensor`` into ``scope``, and let the iteration read the copy.

    Every stage in the loop that reads the tensor reads the copy then; others still read the tensor. Before::

        for i in 0..60:
          C[i] = A[i] + A[59 - i]
        for i in 0..60:
          D[i] = A[i] * C[i]

    After ``AA = s.copy_at(A, s[D], i, "inp")``::

        for i in 0..60:
          C[i] = A[i] + A[59 - i]
        for i in 0..60:
          buffer A.inp in inp: [i + 1]
          for i0 in 0..1:
            A.inp[i + i0] = A[i + i0]
          D[i] = A.inp[i] * C[i]
          free A.inp

    Returns the copy's tensor, which may be copied again, and stored as any other. Raises ScheduleError for an unknown
    scope, an axis that is no loop, or a tensor that is not read in it. Tiramisu's copy_at and cache_shared_at.
    """
    anchor = schedule[stage]
    loop = anchor.find(axis, "copy_at")
    current = schedule.current(tensor)
    inside = [
        each
        for each in stages_inside(anchor, loop)
        if isinstance(current, Tensor) and each in schedule.consumers(current)
    ]
    if not inside:
        raise ScheduleError(
            f"tensor of copy_at must be one that is read in loop {loop.name} of stage {anchor.name}, not "
            f"{getattr(tensor, 'name', tensor)!r}.",
            kind="argument",
        )
    return cache_read(schedule, tensor, scope, inside, at=(anchor, loop))
