"""``shift``: the iterations of a loop run later."""

from dataclasses import replace
from types import MappingProxyType

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.fused_loops import fused_stages
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.primitives.unimodular import checked_integer, replace_loops
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike, LoopAxis

ONE = ((1,),)
FURTHEST = 1 << 20
"""The largest shift: every iteration that it adds exists, and is emitted in chunks."""


def shift(stage: EditedStage, axis: "AxisLike", amount: int) -> LoopAxis:
    """Let each iteration of a loop run ``amount`` iterations later, relative to stages that share the loop.

    Before::

        for i in 0..60:
          C[i] = A[i] + 1

    After ``s[C].shift(i, 2)``::

        for i in 0..62:
          C[i - 2] = A[i - 2] + 1 while i >= 2

    This matters for stages in shared loops (``after``): a stage that reads ahead can follow two rows later. A negative
    amount runs the loop earlier. Loops begin at 0, so the other stages are delayed instead: those that share the loop
    now, or, if none does, the one that ``after`` will add.

    Returns the new loop. Raises ScheduleError if the axis is not a present loop of this stage, or the amount is no
    integer within ``FURTHEST``; LegalityError if a stage would read a value not computed yet. Tiramisu's shift.
    """
    target = stage.find(axis, "shift")
    amount = checked_integer(amount, f"amount of axis {target.name}", "shift", stage)
    if abs(amount) > FURTHEST:
        raise ScheduleError(
            f"amount of axis {target.name} of shift on stage {stage.name} must be from {-FURTHEST} to {FURTHEST}, not "
            f"{amount!r}: it adds as many iterations to the loop. Shift by less.",
            kind="limit",
        )
    advance = stage.state.advance.get(target, 0)
    others = {each: loops for each, loops in fused_stages(stage, (target,)).items() if each is not stage}
    if others:
        if amount < 0:
            return replace_loops(stage, "shift", (target,), (target.name,), ONE, ONE, (-amount,), others=others)[0]
    elif amount < advance or amount < 0:
        new = MappingProxyType({**stage.state.advance, target: advance - amount})
        commit(stage.schedule, {stage: replace(stage.state, advance=new)}, "shift")
        return target
    return replace_loops(stage, "shift", (target,), (target.name,), ONE, ONE, (amount - advance,))[0]


def align(stage: EditedStage, other: EditedStage, count: int) -> None:
    """Shift one of two stages that are about to share their outermost loops, as their ``advance`` requires."""
    for level in range(count):
        one, two = stage.state.leaves[level], other.state.leaves[level]
        difference = stage.state.advance.get(one, 0) - other.state.advance.get(two, 0)
        delayed, loop = (other, two) if difference > 0 else (stage, one)
        if difference:
            replace_loops(delayed, "shift", (loop,), (loop.name,), ONE, ONE, (abs(difference),), together=True)
