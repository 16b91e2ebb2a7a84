"""``parallelize`` and ``distribute``: loops whose iterations may run at the same time, or on different cores."""

from dataclasses import replace
from types import MappingProxyType

from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike, LoopAxis


def annotate_loop(stage: EditedStage, loop: LoopAxis, annotation: str) -> None:
    """Annotate a loop; raises ScheduleError if it is not parallel."""
    annotations = MappingProxyType({**stage.state.annotations, loop: annotation})
    commit(stage.schedule, {stage: replace(stage.state, annotations=annotations)}, annotation)


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
