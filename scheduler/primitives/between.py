"""``between``: a stage runs after one stage and before another."""

from lathe.scheduler.primitives.after import after
from lathe.scheduler.primitives.before import before
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike


def between(
    stage: EditedStage, first: EditedStage, axis: "AxisLike | None", last: EditedStage, last_axis: "AxisLike | None"
) -> None:
    """Run this stage after ``first``, sharing loops down to ``axis``, and before ``last``, down to its ``last_axis``.

    Before::

        for i in 0..60:
          B[i] = A[i] + 1
        for i in 0..60:
          C[i] = B[i] * 2
        for i in 0..60:
          D[i] = C[i] + B[i]

    After ``s[C].between(s[B], "i", s[D], "i")``::

        for i in 0..60:
          B[i] = A[i] + 1
          C[i] = B[i] * 2
          D[i] = C[i] + B[i]

    Errors as for ``after``; on an error nothing is changed. Tiramisu's between.
    """
    before(stage, last, last_axis)
    after(stage, first, axis)
