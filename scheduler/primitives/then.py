"""``then``: the next stage of an order."""

from lathe.scheduler.primitives.before import before
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike


def then(stage: EditedStage, other: EditedStage, axis: "AxisLike | None" = None) -> EditedStage:
    """Run another stage after this one, in shared loops down to ``axis`` of the other.

    Before::

        for i in 0..60:
          B[i] = A[i] + 1
        for i in 0..60:
          C[i] = B[i] * 2

    After ``s[B].then(s[C], i)``::

        for i in 0..60:
          B[i] = A[i] + 1
          C[i] = B[i] * 2

    Returns the other stage, so that calls can be chained: ``s[A].then(s[B], i).then(s[C], j)``. Errors as for
    ``after``. Tiramisu's then.
    """
    before(stage, other, axis)
    return other
