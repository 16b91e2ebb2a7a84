"""``unroll``: a loop's iterations written out."""

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lathe.scheduler.stage import AxisLike, Stage


def unroll(stage: "Stage", axis: "AxisLike") -> None:
    """Write the iterations of a loop out one after the other.

    Before::

        C:
          band i [60]
          time [0, i, 0]

    After ``s[C].unroll(i)``::

        C:
          band i [60] @unroll
          time [0, i, 0]

    Loops outside the emitted nest are always written out in the instruction stream. Inside it, an unrolled loop of an
    instruction with operands is kept out of the two instruction loops and becomes micro-ops or instructions of its own;
    constants and immediates, which have nothing to gain from it, loop all the same. Raises ScheduleError if the axis is
    not a present loop of this stage.
    """
    target = stage.find(axis, "unroll")
    stage.update(replace(stage.state, unrolled=stage.state.unrolled | {target}), "unroll")
