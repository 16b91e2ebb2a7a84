"""``barrier_at``: all units wait for each other."""

from dataclasses import replace

from lathe.frontend import Tensor
from lathe.scheduler.primitives.resolve_location import is_root
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike
from lathe.scheduler.schedule_ir.stage import SyncOp


def barrier_at(schedule: Edit, stage: EditedStage | Tensor, axis: "AxisLike | None" = None) -> None:
    """Put a barrier at the beginning of each iteration of a stage's loop, or before the stage.

    All instructions before it in program order, on all units, finish before any instruction after it starts. Before::

        for io in 0..4:
          buffer B in acc: [16*io + 16]
          for i in 0..16:
            B[16*io + i] = A[16*io + i] + 1
          for ii in 0..16:
            C[16*io + ii] = B[16*io + ii] * 2
          free B

    After ``s.barrier_at(s[C], io)``::

        for io in 0..4:
          barrier
          buffer B in acc: [16*io + 16]
          for i in 0..16:
            B[16*io + i] = A[16*io + i] + 1
          for ii in 0..16:
            C[16*io + ii] = B[16*io + ii] * 2
          free B

    Without an axis, or with ``"root"``, it stands before the stage's own loops, each time that the stage is computed:
    at ``s[B]`` that would be between ``buffer`` and ``for i``. Results do not depend on barriers; they serve
    measurements, and what other masters of the memory observe. The machine executes a compute instruction without
    effect that waits for tokens from load and store and returns tokens to them. Virtual threads of a loop have one
    barrier together. Raises ScheduleError if the axis is not a present loop of the stage, is shared with another stage,
    or is inside an ``emit_insn`` nest. After Tiramisu's barriers.
    """
    target = schedule[stage]
    loop = None if axis is None or is_root(axis) else target.find(axis, "barrier_at")
    signal = SyncOp("barrier", loop)
    if signal not in target.state.sync_ops:
        commit(
            target.schedule, {target: replace(target.state, sync_ops=(*target.state.sync_ops, signal))}, "barrier_at"
        )
