"""Which stored tensors may be loaded where nothing has been stored: what these bytes hold changes no result.

An instruction works on whole elements and boxes, and a condition becomes a multiplication with 0 or 1
(``if_convert``), so the machine also loads cells that a program reads under a condition that does not hold. A
stage that is computed whole before its readers has them all; one in the loops of another, or with a domain, may not
have made them yet, or ever.
"""

from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.stage import StageId
from lathe.scheduler.target.target import Target


def mark_speculatable_loads(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Note the stages that may be loaded before they are stored."""
    schedule.update(speculatable=loaded_early(schedule))


def loaded_early(schedule: Edit) -> frozenset[StageId]:
    """The stages of a schedule, as its commands have left it, that are made in part and read under conditions."""
    conditional: set[EditedStage] = set()
    for stage in reversed(schedule.stages):  # readers first
        for reader in (each for tensor in stage.state.tensors for each in schedule.readers(tensor)):
            reads = [read for read in reader.state.computation.reads if read.tensor in stage.state.tensors]
            if reader in conditional or any(read.guards for read in reads):
                conditional.add(stage)
    return frozenset(
        stage.id
        for stage in conditional
        if stage.state.attachment is not None or stage.state.computation.where is not None
    )
