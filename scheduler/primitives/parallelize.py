"""``parallelize``: a loop whose iterations may run at the same time."""

from lathe.scheduler.primitives.loop_annotations import mark_loop
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike


def parallelize(stage: EditedStage, axis: "AxisLike") -> None:
    """Mark a loop as one whose iterations may run at the same time, on units that share memory.

    Before::

        C:
          band i [64]
          band j [96]
          time [0, i, 0, j, 0]

    After ``s[C].parallelize(i)``::

        C:
          band i [64] @parallelize
          band j [96]
          time [0, i, 0, j, 0]

    The mark is checked now and after every later command. A single core runs the iterations one after the other;
    ``s.count().cores`` says what each would have to do alone, and with a machine, what it would load and store. Raises
    ScheduleError if the axis is not a present loop of this stage or a reduction, LegalityError with a witness if an
    iteration reads what another makes. Tiramisu's parallelize.
    """
    mark_loop(stage, stage.find(axis, "parallelize"), "parallelize")
