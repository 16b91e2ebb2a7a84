"""``shift``: the iterations of a loop come later."""

from typing import TYPE_CHECKING

from lathe.scheduler.commands.affine import checked_integer, replace_loops
from lathe.scheduler.state import LoopAxis

if TYPE_CHECKING:
    from lathe.scheduler.stage import AxisLike, Stage


def shift(stage: "Stage", axis: "AxisLike", amount: int) -> LoopAxis:
    """Let each iteration of a loop run ``amount`` iterations later, beside those of stages in the same loop.

    Before::

        for i in 0..60:
          C[i] = A[i] + 1

    After ``s[C].shift(i, 2)``::

        for i in 0..62:
          C[i - 2] = A[i - 2] + 1 while i >= 2

    It makes a difference where stages run together (``after``): a stage that reads ahead can follow two rows behind.
    Returns the new loop. Raises ScheduleError if the axis is not a present loop of this stage, or the amount is no
    integer of at least 0 (loops begin at 0: to bring a stage forward, shift the others), LegalityError if a stage
    would find a value not yet made. Tiramisu's shift.
    """
    target = stage.find(axis, "shift")
    amount = checked_integer(amount, f"amount of axis {target.name}", "shift", stage, 0)
    one = ((1,),)
    return replace_loops(stage, "shift", (target,), (target.name,), one, one, (amount,))[0]
