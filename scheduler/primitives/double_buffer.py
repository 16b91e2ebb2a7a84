"""``double_buffer``: how many buffers a stage has, that take turns in the loop in which it is computed."""

from dataclasses import replace

from lathe.configs.errors import shown
from lathe.configs.integers import integer
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import EditedStage

MOST = 16


def double_buffer(stage: EditedStage, copies: int | None = 2) -> None:
    """Give a stage in a scratchpad as many buffers as asked for, used in turn by iterations of the loop around it.

    While one iteration reads its buffer, the next may fill another: dependence tokens follow from the cells that
    instructions touch, so with two buffers a load no longer waits until the reader of the one before is done, and the
    last iterations wait for nothing that does not come. Before::

        for io in 0..4:
          buffer B in acc: [16*io + 16]
          for i in 0..16:
            B[16*io + i] = A[16*io + i] + 1
          for ii in 0..16:
            C[16*io + ii] = B[16*io + ii] * 2
          free B

    After ``s[B].double_buffer()``::

        for io in 0..4:
          buffer B in acc × 2: [16*io + 16]
          for i in 0..16:
            B[16*io + i] = A[16*io + i] + 1
          for ii in 0..16:
            C[16*io + ii] = B[16*io + ii] * 2
          free B

    Without the command a buffer in a loop is there twice where there is room, the smaller ones of what is loaded first.
    With it there is room, or ``build`` raises CapacityError with the sizes; ``double_buffer(1)`` forbids a second one,
    and ``double_buffer(None)`` leaves it open again. A reuse buffer gets room for that many advances less one. Raises
    ScheduleError for a number that is none from 1 to 16, for a stage in DRAM, which needs no turns, and for more than
    one buffer of a stage that is computed once. The idea is VTA's and TVM's ``double_buffer``.
    """
    count = integer(copies)
    if copies is not None and (count is None or not 1 <= count <= MOST):
        raise ScheduleError(
            f"number of buffers of stage {stage.name} must be from 1 to {MOST}, or None to leave it open, not "
            f"{shown(copies)}.",
            kind="argument",
        )
    commit(stage.schedule, {stage: replace(stage.state, slots=count)}, "double_buffer")
