"""``copy_at``, and ``cache_write`` at a loop: explicit copies between memories, each of what one iteration needs."""

from lathe.frontend import Tensor
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.primitives.cache import cache_read
from lathe.scheduler.primitives.reuse_at import stages_in
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike
from lathe.scheduler.schedule_ir.memories import ACC


def copy_at(schedule: Edit, tensor: Tensor, stage: Tensor | EditedStage, axis: "AxisLike", scope: str = ACC) -> Tensor:
    """Copy, in each iteration of a loop, what it reads of ``tensor`` into ``scope``, and let it read the copy.

    Every stage in the loop that reads the tensor reads the copy then; others go on reading the tensor. Before::

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

    Returns the copy's tensor, which may be copied on, and stored as any other. Raises ScheduleError for an unknown
    scope, an axis that is no loop, or a tensor that is not read in it. Tiramisu's copy_at and cache_shared_at.
    """
    host = schedule[stage]
    loop = host.find(axis, "copy_at")
    now = schedule.current(tensor)
    inside = [each for each in stages_in(host, loop) if isinstance(now, Tensor) and each in schedule.readers(now)]
    if not inside:
        raise ScheduleError(
            f"tensor of copy_at must be one that is read in loop {loop.name} of stage {host.name}, not "
            f"{getattr(tensor, 'name', tensor)!r}.",
            kind="argument",
        )
    return cache_read(schedule, tensor, scope, inside, at=(host, loop))
