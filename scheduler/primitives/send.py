"""``send`` and ``receive``: user-specified dependence tokens."""

from dataclasses import replace
from typing import Literal

from lathe.configs.errors import shown
from lathe.configs.integers import integer
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.primitives.resolve_location import is_root
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike
from lathe.scheduler.schedule_ir.stage import SyncOp
from lathe.scheduler.schedule_ir.sync import UNITS


def send(stage: EditedStage, to: str, axis: "AxisLike | None" = None) -> None:
    """Send a token to a neighbouring unit at the end of each iteration of a loop, or after the whole stage.

    The sender is the unit that writes the stage's values: ``load`` for a stage in ``inp`` or ``wgt``, ``compute`` in
    ``acc``, ``store`` in DRAM. It sends when all instructions given to it before have finished. Before::

        for io in 0..4:
          buffer B in acc: [16*io + 16]
          for i in 0..16:
            B[16*io + i] = A[16*io + i] + 1
          for ii in 0..16:
            C[16*io + ii] = B[16*io + ii] * 2
          free B

    After ``s[B].send("store")`` and ``s[C].receive("compute", io)``::

        for io in 0..4:
          C receives from compute
          buffer B in acc: [16*io + 16]
          for i in 0..16:
            B[16*io + i] = A[16*io + i] + 1
          B sends to store
          for ii in 0..16:
            C[16*io + ii] = B[16*io + ii] * 2
          free B

    The k-th receive of a queue gets the token of its k-th send, so the pair orders two instructions, and nothing else.
    Dependences are still derived, so user-specified tokens cannot make a result wrong; one that derived tokens imply is
    omitted. A receive may precede its send in the program, as above: the instruction that waits is moved after the one
    that sends, if possible.

    Raises ScheduleError if ``to`` is no neighbour of the unit, or the axis is not a present loop of the stage, is
    shared with another stage, or is inside an ``emit_insn`` nest. ``build`` raises it if sends and receives of a queue
    differ in number, or would deadlock. After Tiramisu's send and receive, and VTA's push and pop of dependences.
    """
    _add_sync_op(stage, "send", to, axis)


def receive(stage: EditedStage, from_: str, axis: "AxisLike | None" = None, ahead: int = 0) -> None:
    """Wait for a token of a neighbouring unit at the beginning of each iteration of a loop, or before the whole stage.

    The unit that writes the stage's values starts no later instruction before the token is there. ``ahead`` tokens are
    in the queue from the start, and the last ``ahead`` sends are not received: with one, each iteration waits for the
    send of the previous one. For an example and errors see ``send``; an invalid ``ahead`` raises ScheduleError, too.
    """
    count = integer(ahead)
    if count is None or count < 0:
        raise ScheduleError(
            f"tokens ahead of receive of stage {stage.name} must be an integer of at least 0, not {shown(ahead)}.",
            kind="argument",
        )
    _add_sync_op(stage, "receive", from_, axis, count)


def _add_sync_op(
    stage: EditedStage, kind: Literal["send", "receive"], other: str, axis: "AxisLike | None", ahead: int = 0
) -> None:
    if not isinstance(other, str) or other not in UNITS:
        raise ScheduleError(
            f"unit of {kind} of stage {stage.name} must be one of {', '.join(UNITS)}, not {other!r}.", kind="argument"
        )
    loop = None if axis is None or is_root(axis) else stage.find(axis, kind)
    signals = (*stage.state.sync_ops, SyncOp(kind, loop, other, ahead))
    commit(stage.schedule, {stage: replace(stage.state, sync_ops=signals)}, kind)
