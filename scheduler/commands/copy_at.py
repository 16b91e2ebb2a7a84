"""``copy_at``, and ``cache_write`` at a loop: explicit copies between memories, each of what one iteration needs."""

from dataclasses import replace
from typing import TYPE_CHECKING

from lathe.frontend import Tensor
from lathe.frontend.errors import shown
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.state.stage import Attachment

if TYPE_CHECKING:
    from lathe.scheduler.schedule import Schedule
    from lathe.scheduler.stage import AxisLike, Stage


def copy_at(
    schedule: "Schedule", tensor: Tensor, stage: "Tensor | Stage", axis: "AxisLike", scope: str = "acc"
) -> Tensor:
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
    from lathe.scheduler.commands.reuse_at import stages_in

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
    return schedule.cache_read(tensor, scope, inside, at=(host, loop))


def place_of(schedule: "Schedule", at: object, command: str) -> Attachment:
    """The loop that a stage, or its tensor, and one of its loops name. Raises ScheduleError if they name none."""
    if not isinstance(at, tuple) or len(at) != 2:
        raise ScheduleError(
            f"at of {command} must be a stage and one of its loops, as in (C, i), not {shown(at)}.", kind="argument"
        )
    host = schedule[at[0]]
    return Attachment(host, host.find(at[1], command))


def written_at(stage: "Stage", scope: str, axis: "AxisLike") -> Tensor:
    """``cache_write`` at a loop of the stage, which keeps what has been done to its loops of data.

    Raises ScheduleError for a loop of a reduction, or a stage with a pragma or others computed inside it.
    """
    from lathe.scheduler.passes.store_in_loops import write_through_acc

    schedule, before, stages = stage.schedule, stage.state, list(stage.schedule.stages)
    loop = stage.find(axis, "cache_write")
    inside = ", ".join(each.name for each in schedule.attached(stage))
    reason = ""
    if loop.kind == "reduce":
        reason = f"loop {loop.name} of its reduction"
    elif inside:
        reason = f"one with {inside} computed inside it"
    elif before.pragma is not None:
        reason = f"one whose loops emit_insn gives to rule {before.pragma!r}"
    if reason:
        raise ScheduleError(
            f"axis of cache_write of {stage.name} must be a loop of data of a stage without a pragma and without "
            f"others inside it, not {reason}. Call cache_write before other commands.",
            kind="limit",
        )
    with schedule.all_or_nothing():
        _, writer = write_through_acc(schedule, stage, scope)
        made, copy = replace(writer.state, attachment=Attachment(stage, loop)), stage.state
        copy = replace(copy, computation=replace(copy.computation, where=before.computation.where))
        after, schedule.stages, stage.state = list(schedule.stages), stages, before
        schedule.commit({writer: made, stage: copy}, "cache_write", stages=after)
    return writer.tensor
