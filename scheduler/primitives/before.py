"""``before``: a stage runs before another."""

from lathe.scheduler.primitives.after import after, check_pair
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike


def before(stage: EditedStage, other: EditedStage, axis: "AxisLike | None" = None) -> None:
    """Run this stage before another, in shared loops down to ``axis`` of the other.

    Before::

        for i in 0..60:
          B[i] = A[i] + 1
        for i in 0..60:
          C[i] = B[i] * 2

    After ``s[B].before(s[C], i)``::

        for i in 0..60:
          B[i] = A[i] + 1
          C[i] = B[i] * 2

    The same as ``other.after(stage, axis)``, with the same errors. Tiramisu's before.
    """
    check_pair(stage, other, "before")
    after(other, stage, axis)
