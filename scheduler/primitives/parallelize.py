"""``parallelize``: a loop whose iterations may run at the same time."""

from lathe.scheduler.primitives.loop_annotations import annotate_loop
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike


def parallelize(stage: EditedStage, axis: "AxisLike") -> None:
    """Annotate a loop whose iterations may run at the same time, on units that share memory.

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

    The annotation is checked now and after every later primitive. A single core runs the iterations one after the
    other; ``s.count().cores`` has the work of each core, and with a machine, its loads and stores. Raises ScheduleError
    if the axis is not a present loop of this stage or is a reduction, LegalityError with a witness if an iteration
    reads what another writes. Tiramisu's parallelize.
    """
    annotate_loop(stage, stage.find(axis, "parallelize"), "parallelize")
