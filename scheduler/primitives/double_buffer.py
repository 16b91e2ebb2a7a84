"""``double_buffer``: the number of buffers that iterations alternate between."""

from dataclasses import replace

from lathe.configs.errors import shown
from lathe.configs.integers import integer
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import EditedStage

MOST = 16


def double_buffer(stage: EditedStage, copies: int | None = 2) -> None:
    """Give a stage in a scratchpad ``copies`` buffers, which iterations of the enclosing loop use round-robin.

    While one iteration reads its buffer, the next may fill another: dependence tokens follow from the cells that
    instructions access, so with two buffers a load no longer waits for the consumer of the previous tile, and the
    epilogue waits for no tokens that are never sent. Before::

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

    By default a buffer in a loop is doubled if it fits, smaller ones of what is loaded first. With this primitive it
    must fit, or ``build`` raises CapacityError with the sizes; ``double_buffer(1)`` forbids a second buffer, and
    ``double_buffer(None)`` restores the default. A reuse buffer is extended by that many advances less one. Raises
    ScheduleError for a number outside 1 to 16, for a stage in DRAM, and for more than one buffer of a stage that is
    computed once. After ``double_buffer`` of VTA and TVM.
    """
    count = integer(copies)
    if copies is not None and (count is None or not 1 <= count <= MOST):
        raise ScheduleError(
            f"number of buffers of stage {stage.name} must be from 1 to {MOST}, or None for the default, not "
            f"{shown(copies)}.",
            kind="argument",
        )
    commit(stage.schedule, {stage: replace(stage.state, buffer_count=count)}, "double_buffer")
