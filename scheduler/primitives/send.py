"""``send`` and ``receive``: dependence tokens by hand."""

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
    """Send a token to a neighbouring unit at the end of each iteration of a loop, or behind the whole stage.

    The token comes from the unit that makes the stage's values: ``load`` for a stage in ``inp`` or ``wgt``, ``compute``
    in ``acc``, ``store`` in DRAM. It is there when all is done that this unit has been given up to there. Before::

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

    The k-th token that a unit receives from another is the k-th that this one sends, so a pair of them is an order of
    two instructions, and nothing else. Dependences between instructions are derived as ever, so no token by hand can
    make a value wrong; one that says what derived tokens say already costs nothing and does nothing. A token may be
    received before it is sent, as above: what waits for it moves behind what sends it, as far as that is possible.

    Raises ScheduleError if ``to`` is no neighbour of the unit, or the axis not a present loop of the stage, or shared
    with another stage, or inside an ``emit_insn`` nest. ``build`` raises it unless as many tokens are received as sent
    in each queue, and where one would be waited for for ever. From Tiramisu's send and receive, and the push and pop of
    dependences in VTA.
    """
    _signal(stage, "send", to, axis)


def receive(stage: EditedStage, from_: str, axis: "AxisLike | None" = None, ahead: int = 0) -> None:
    """Wait for a token of a neighbouring unit at the beginning of each iteration of a loop, or before the whole stage.

    The unit that makes the stage's values begins nothing that comes later before the token is there. ``ahead`` tokens
    are there from the beginning, and as many that are sent last are received by nobody: with one, each iteration waits
    for what the iteration before has sent. See ``send``, which shows both; raises what this raises, and ScheduleError
    for a number of tokens that is none.
    """
    count = integer(ahead)
    if count is None or count < 0:
        raise ScheduleError(
            f"tokens ahead of receive of stage {stage.name} must be a number from 0 on, not {shown(ahead)}.",
            kind="argument",
        )
    _signal(stage, "receive", from_, axis, count)


def _signal(
    stage: EditedStage, kind: Literal["send", "receive"], other: str, axis: "AxisLike | None", ahead: int = 0
) -> None:
    if not isinstance(other, str) or other not in UNITS:
        raise ScheduleError(
            f"unit of {kind} of stage {stage.name} must be one of {', '.join(UNITS)}, not {other!r}.", kind="argument"
        )
    loop = None if axis is None or is_root(axis) else stage.find(axis, kind)
    signals = (*stage.state.signals, SyncOp(kind, loop, other, ahead))
    commit(stage.schedule, {stage: replace(stage.state, signals=signals)}, kind)
