"""``unroll``: a loop's iterations written out."""

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lathe.scheduler.stage import AxisLike, Stage


def unroll(stage: "Stage", axis: "AxisLike") -> None:
    """Write the iterations of a loop out one after the other.

    Before, and after ``s[C].unroll(i)``::

        for i in 0..3:                     C[0] = ...
            C[i] = ...                     C[1] = ...
                                           C[2] = ...

    Loops outside the emitted nest are always written out in the instruction stream; inside it, an unrolled loop is
    kept out of the two instruction loops and becomes micro-ops or instructions of its own. Raises ScheduleError if
    the axis is not a present loop of this stage.
    """
    target = stage.find(axis, "unroll")
    stage.update(replace(stage.state, unrolled=stage.state.unrolled | {target}), "unroll")
