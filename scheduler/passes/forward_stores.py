"""What the same iteration has made is read in acc, where it was made, and not where it has been stored."""

from dataclasses import replace

from lathe.frontend.expr.nodes import ReadAccess
from lathe.scheduler.layout.store_forms import PLANES
from lathe.scheduler.legality.reaching_write_query import Ordering, first_lost
from lathe.scheduler.legality.reaching_writes import DirectAccesses
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.rewriting.rewrite import reads_redirected
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.target.target import Target


def read_where_made(schedule: Edit, target: Target, writer: EditedStage, store: EditedStage) -> None:
    """Let stages in acc read what the same iteration has made where it was made, and not where it has been stored.

    Storing bytes leaves the accumulators as they are; storing wider values would have to copy them first.
    """
    if store.tensor.dtype in PLANES or store.state.concat_of:
        return
    for reader in schedule.stages[schedule.stages.index(store) + 1 :]:
        state = reader.state
        if state.scope != target.near.name or state.copies or match_gemm_operands(state.computation) is not None:
            continue
        reads = [read for read in state.computation.reads if read.tensor is store.tensor]
        near = {read.node: writer.tensor for read in reads if is_near(writer, reader, read)}
        if near and len(near) == len(reads):
            reader.put(replace(state, computation=reads_redirected(state.computation, near)))


def is_near(writer: EditedStage, reader: EditedStage, read: ReadAccess) -> bool:
    """Whether all that a read touches is made in the same iteration of the loops around the writer."""
    placed = place_stages(writer.schedule)
    uses = DirectAccesses.of_instances(placed[writer], placed[reader], [read])
    return uses.depth == len(placed[writer].prefix) and first_lost(uses, Ordering(every=True, stays=False)) is None
