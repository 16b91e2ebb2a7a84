"""``reverse``: a loop runs backwards."""

from lathe.scheduler.loop_ir.recurrences import recurrence_groups
from lathe.scheduler.primitives.unimodular import replace_loops
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike, LoopAxis


def reverse(stage: EditedStage, axis: "AxisLike") -> LoopAxis:
    """Run a loop from its last iteration to its first.

    Before::

        for i in 0..60:
          C[i] = A[i] + 1

    After ``s[C].reverse(i)``::

        for i in 0..60:
          C[-i + 59] = A[-i + 59] + 1

    The stages of a recurrence share the loop, so it is reversed in all of them. Returns the new loop. Raises
    ScheduleError if the axis is not a present loop of this stage, LegalityError if a stage would read a value not
    computed yet. Loop reversal of the polyhedral model.
    """
    target = stage.find(axis, "reverse")
    minus = ((-1,),)
    together = (
        any(stage in group for group in recurrence_groups(stage.schedule)) if stage.schedule.has_recurrences else False
    )
    return replace_loops(stage, "reverse", (target,), (target.name,), minus, minus, (0,), together=together)[0]
