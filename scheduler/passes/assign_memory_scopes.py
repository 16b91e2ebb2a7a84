"""What is computed in the loops of others goes into a scratchpad: DRAM holds whole tensors."""

from dataclasses import replace

from lathe.isa import Unit
from lathe.scheduler.errors import BuildError, LegalityError
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.legality.flow_dependences import check_reads
from lathe.scheduler.passes.insert_writeback import can_write_back, is_writeback
from lathe.scheduler.rewriting.matchers import is_loadable, match_gemm_operands
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage
from lathe.scheduler.schedule_ir.memories import DRAM, OPERANDS
from lathe.scheduler.schedule_ir.stage import StageState
from lathe.scheduler.schedule_ir.sync import unit_of_stage
from lathe.scheduler.target.target import Target


def assign_memory_scopes(schedule: Edit, target: Target) -> None:
    """Put in a scratchpad what is computed in the loops of other stages, in place: DRAM holds whole tensors.

    What is read after the iteration that makes it stays in DRAM, to be stored there (``insert_writeback``), and so does
    what the user has put there, and what is computed for a matrix product, which wants it loaded.
    """
    parts: dict[EditedStage, StageState] = {}
    for stage in schedule.stages:
        state, place = stage.state, stage.state.attachment
        if state.storage is not None and state.storage.buffer.scope == DRAM:
            continue
        if place is None or place.loops or state.scope != DRAM or set(state.tensors) & set(schedule.outputs):
            continue
        by_hand = any(signal.kind != "barrier" for signal in state.signals)
        if by_hand and unit_of_stage(stage) == Unit.STORE and can_write_back(stage, place):
            continue  # the tokens are those of its stores
        if place.region == "missing" and (
            can_write_back(stage, place) or state.pragma is not None or is_writeback(stage)
        ):
            continue
        scope = _scope_near(stage, target)
        if scope == DRAM and can_write_back(stage, place):
            continue
        parts[stage] = state
        stage.put(replace(state, scope=target.near.name if scope == DRAM else scope))
    if not parts or _reads_hold(schedule, set(parts)):
        return
    near = {stage: stage.state for stage in parts}
    for stage, state in parts.items():
        stage.put(state)
    for stage, state in near.items():
        stage.put(state)
        if _reads_hold(schedule, {stage}):
            continue
        place = state.attachment
        assert place is not None
        if not can_write_back(stage, place):
            host = schedule.at(place)
            raise BuildError(
                f"place of stage {stage.name} must be a loop that all its readers are in, or a data loop of one that "
                f"is computed whole, not loop {place.axis.name} of {host.name}, for machine {target.config.name!r} to "
                "keep its values until they are read. Compute it at a loop further out, or leave it at the root.",
                kind="limit",
            )
        stage.put(parts[stage])


def _scope_near(stage: EditedStage, target: Target) -> str:
    """Where the readers of a part want it: in acc, or for matrix products in inp or wgt; DRAM for those that load it.

    No instruction computes in inp and wgt: what is more than a copy is loaded.
    """
    schedule, tensor = stage.schedule, stage.tensor
    wanted: set[str] = set()
    for reader in schedule.readers(tensor):
        if reader.state.copies is tensor and reader.state.scope in OPERANDS:
            wanted.add(DRAM)
        elif any(read.tensor is tensor for read in match_gemm_operands(reader.state.computation) or ()):
            product = assign_layouts(schedule, target.config).products[reader.tensor]
            reads = () if product is None else (product.data, product.weight)
            wanted.update(target.memory_of(product, read).name for read in reads if read.tensor is tensor)
        else:
            computation = reader.state.computation
            elsewhere = (read.node for read in computation.reads if read.tensor is tensor)
            wanted.update(target.memory_of(None, read, computation).name for read in elsewhere)
    if wanted <= {target.near.name}:
        return target.near.name
    return wanted.pop() if len(wanted) == 1 and is_loadable(stage.state.computation.bodies[0]) else DRAM


def _reads_hold(schedule: Edit, moved: set[EditedStage]) -> bool:
    """Whether values are still there when they are read, with these stages in a scratchpad."""
    try:
        check_reads(schedule, "build", set(moved))
    except LegalityError:
        return False
    return True
