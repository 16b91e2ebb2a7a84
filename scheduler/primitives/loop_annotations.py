"""Annotation of loops, for vectorize, parallelize and distribute."""

from dataclasses import replace
from types import MappingProxyType

from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import LoopAxis


def annotate_loop(stage: EditedStage, loop: LoopAxis, annotation: str) -> None:
    """Annotate a loop; raises ScheduleError if it is not parallel."""
    annotations = MappingProxyType({**stage.state.annotations, loop: annotation})
    commit(stage.schedule, {stage: replace(stage.state, annotations=annotations)}, annotation)
