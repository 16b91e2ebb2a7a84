"""``barrier_at``: all units wait for all."""

from dataclasses import replace
from typing import TYPE_CHECKING

from lathe.scheduler.commands.roots import is_root
from lathe.scheduler.state.stage import Signal

if TYPE_CHECKING:
    from lathe.frontend import Tensor
    from lathe.scheduler.schedule import Schedule
    from lathe.scheduler.stage import AxisLike, Stage


def barrier_at(schedule: "Schedule", stage: "Stage | Tensor", axis: "AxisLike | None" = None) -> None:
    """Put a barrier at the beginning of each iteration of a stage's loop, or before the stage.

    Everything that comes before it in the order of the program, in whatever unit, is done before anything begins that
    comes after it. Before::

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

    Without an axis, or with ``"root"``, it stands before the stage's own loops, each time that it is computed: at
    ``s[B]`` that would be between ``buffer`` and ``for i``. Values are right without any barrier; this one is for
    measuring, and for what other masters of the memory see. The machine has an instruction of compute that does nothing
    but wait, with tokens from and to load and store. Threads of a loop have one barrier together. Raises ScheduleError
    if the axis is not a present loop of the stage, is shared with another stage, or inside an ``emit_insn`` nest. From
    Tiramisu's list of commands.
    """
    target = schedule[stage]
    loop = None if axis is None or is_root(axis) else target.find(axis, "barrier_at")
    signal = Signal("barrier", loop)
    if signal not in target.state.signals:
        target.update(replace(target.state, signals=(*target.state.signals, signal)), "barrier_at")
