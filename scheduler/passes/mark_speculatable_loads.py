"""Mark speculatable loads: stages whose DRAM cells may be loaded before they are stored, as conditions mask them.

A LOAD transfers whole boxes of vectors, and ``if_convert`` turns a condition into a multiplication by a 0/1 mask. So
the machine also loads cells that the program reads only under a false condition; their values change no result. A stage
that is computed completely before its consumers has written these cells. A stage that is fused into the loops of
another or has a domain may write them later, or never.
"""

from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.stage import StageId
from lathe.scheduler.target.target import Target


def mark_speculatable_loads(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Record in ``ScheduleState.speculatable`` the stages whose LOADs may precede their STOREs."""
    schedule.update(speculatable=_speculatable_stages(schedule))


def _speculatable_stages(schedule: Edit) -> frozenset[StageId]:
    """The stages that the user's schedule computes only in part and that are read under a condition."""
    conditional: set[EditedStage] = set()
    for stage in reversed(schedule.stages):  # consumers first
        for consumer in (each for tensor in stage.state.tensors for each in schedule.consumers(tensor)):
            reads = [read for read in consumer.state.computation.reads if read.tensor in stage.state.tensors]
            if consumer in conditional or any(read.guards for read in reads):
                conditional.add(stage)
    return frozenset(
        stage.id
        for stage in conditional
        if stage.state.attachment is not None or stage.state.computation.where is not None
    )
