"""Forward stores to loads: a consumer in the iteration that computes a value in acc reads it there, not from DRAM."""

from dataclasses import replace

from lathe.frontend.expr.nodes import ReadAccess
from lathe.scheduler.layout.store_forms import PLANES
from lathe.scheduler.legality.reaching_write_query import Ordering, first_violation
from lathe.scheduler.legality.reaching_writes import DirectAccesses
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.rewriting.rewrite import redirect_single_reads
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.target.target import Target


def forward_stores(schedule: Edit, target: Target, writer: EditedStage, store: EditedStage) -> None:
    """Redirect reads of ``store`` by later acc stages to ``writer``, in place, within the same iteration.

    Only for bytes: a STORE of bytes leaves the accumulators unchanged, one of wider values needs copies of them.
    """
    if store.tensor.dtype in PLANES or store.state.concat_of:
        return
    for consumer in schedule.stages[schedule.stages.index(store) + 1 :]:
        state = consumer.state
        if state.scope != target.acc.name or state.copy_of or match_gemm_operands(state.computation) is not None:
            continue
        reads = [read for read in state.computation.reads if read.tensor is store.tensor]
        forwarded = {read.node: writer.tensor for read in reads if is_same_iteration(writer, consumer, read)}
        if forwarded and len(forwarded) == len(reads):
            consumer.put(replace(state, computation=redirect_single_reads(state.computation, forwarded)))


def is_same_iteration(writer: EditedStage, consumer: EditedStage, read: ReadAccess) -> bool:
    """Whether all that ``read`` touches is computed in the same iteration of the loops around the writer."""
    placed = place_stages(writer.schedule)
    uses = DirectAccesses.of_instances(placed[writer], placed[consumer], [read])
    return uses.depth == len(placed[writer].prefix) and first_violation(uses, Ordering(every=True, stays=False)) is None
