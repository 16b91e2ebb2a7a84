"""``interchange``: two loops are swapped."""

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.primitives.reorder import reorder
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike


def interchange(stage: EditedStage, x: "AxisLike", y: "AxisLike") -> None:
    """Swap two loops; all others stay.

    Before::

        for i in 0..5:
          for j in 0..7:
            C[i, j] = A[i, j] + 1

    After ``s[C].interchange(i, j)``::

        for j in 0..7:
          for i in 0..5:
            C[i, j] = A[i, j] + 1

    Raises ScheduleError if an axis is not a present loop of this stage, or both are the same; LegalityError if a stage
    would read a value not computed yet. Tiramisu's interchange; ``reorder`` does it for any number of loops.
    """
    first, second = stage.find(x, "interchange"), stage.find(y, "interchange")
    if first is second:
        raise ScheduleError(
            f"axes of interchange on stage {stage.name} must be two different loops, not {first.name!r} twice.",
            kind="argument",
        )
    ordered = sorted((first, second), key=stage.state.leaves.index, reverse=True)
    reorder(stage, *ordered)
