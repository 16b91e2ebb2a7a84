"""``shift``: the iterations of a loop come later."""

from dataclasses import replace
from types import MappingProxyType

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.fused_loops import sharing
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.primitives.unimodular import checked_integer, replace_loops
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike, LoopAxis

ONE = ((1,),)
FURTHEST = 1 << 20
"""The most iterations by which a loop is shifted: they are all there, and chunks of each are laid out one by one."""


def shift(stage: EditedStage, axis: "AxisLike", amount: int) -> LoopAxis:
    """Let each iteration of a loop run ``amount`` iterations later, beside those of stages in the same loop.

    Before::

        for i in 0..60:
          C[i] = A[i] + 1

    After ``s[C].shift(i, 2)``::

        for i in 0..62:
          C[i - 2] = A[i - 2] + 1 while i >= 2

    It makes a difference where stages run together (``after``): a stage that reads ahead can follow two rows behind. A
    negative amount lets the loop run earlier. Loops begin at 0, so it is the others that come later: those that run
    in the loop now, or, of a loop that no other stage shares yet, the one that ``after`` will bring.

    Returns the new loop. Raises ScheduleError if the axis is not a present loop of this stage, or the amount is no
    integer within ``FURTHEST``; LegalityError if a stage would find a value not yet made. Tiramisu's shift.
    """
    target = stage.find(axis, "shift")
    amount = checked_integer(amount, f"amount of axis {target.name}", "shift", stage)
    if abs(amount) > FURTHEST:
        raise ScheduleError(
            f"amount of axis {target.name} of shift on stage {stage.name} must be from {-FURTHEST} to {FURTHEST}, not "
            f"{amount!r}: each iteration that it adds is one of the loop. Shift by less.",
            kind="limit",
        )
    ahead = stage.state.advance.get(target, 0)
    others = {each: loops for each, loops in sharing(stage, (target,)).items() if each is not stage}
    if others:
        if amount < 0:
            return replace_loops(stage, "shift", (target,), (target.name,), ONE, ONE, (-amount,), others=others)[0]
    elif amount < ahead or amount < 0:
        new = MappingProxyType({**stage.state.advance, target: ahead - amount})
        commit(stage.schedule, {stage: replace(stage.state, advance=new)}, "shift")
        return target
    return replace_loops(stage, "shift", (target,), (target.name,), ONE, ONE, (amount - ahead,))[0]


def align(stage: EditedStage, other: EditedStage, count: int) -> None:
    """Shift the one or the other of two stages that are about to share their outermost loops, as ``ahead`` wants."""
    for level in range(count):
        one, two = stage.state.leaves[level], other.state.leaves[level]
        difference = stage.state.advance.get(one, 0) - other.state.advance.get(two, 0)
        late, loop = (other, two) if difference > 0 else (stage, one)
        if difference:
            replace_loops(late, "shift", (loop,), (loop.name,), ONE, ONE, (abs(difference),), together=True)
