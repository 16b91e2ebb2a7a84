"""``distribute``: a loop whose iterations may run on different cores."""

from lathe.scheduler.primitives.loop_annotations import annotate_loop
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike


def distribute(stage: EditedStage, axis: "AxisLike") -> None:
    """Annotate a loop whose iterations may run on different cores.

    Before::

        C:
          band i [64]
          band j [96]
          time [0, i, 0, j, 0]

    After ``s[C].distribute(i)``::

        C:
          band i [64] @distribute
          band j [96]
          time [0, i, 0, j, 0]

    Checked and counted like ``parallelize``: ``s.count(cfg).cores`` has the instances and transfers of each core, with
    the halos that several of them load. With one core the iterations run one after the other. Raises ScheduleError if
    the axis is not a present loop of this stage or is a reduction, LegalityError with a witness if an iteration reads
    what another writes. Tiramisu's distribute.
    """
    annotate_loop(stage, stage.find(axis, "distribute"), "distribute")
