"""Assign memory scopes: move stages that are computed in other stages' loops from DRAM to acc, inp or wgt."""

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
    """Set the memory scope (acc, inp or wgt), in place, of each stage that is computed in a loop of another stage.

    A stage stays in DRAM if the user has stored it there, if it is read after the iteration that computes it
    (``insert_writeback`` stores it), or if it is computed for a GEMM, which loads its operands.
    """
    moved: dict[EditedStage, StageState] = {}
    for stage in schedule.stages:
        state, location = stage.state, stage.state.attachment
        if state.storage is not None and state.storage.buffer.scope == DRAM:
            continue
        if location is None or location.loops or state.scope != DRAM or set(state.tensors) & set(schedule.outputs):
            continue
        has_tokens = any(signal.kind != "barrier" for signal in state.sync_ops)
        if has_tokens and unit_of_stage(stage) == Unit.STORE and can_write_back(stage, location):
            continue  # its tokens are those of its STOREs
        if location.region == "missing" and (
            can_write_back(stage, location) or state.pragma is not None or is_writeback(stage)
        ):
            continue
        scope = _consumer_scope(stage, target)
        if scope == DRAM and can_write_back(stage, location):
            continue
        moved[stage] = state
        stage.put(replace(state, scope=target.acc.name if scope == DRAM else scope))
    if not moved or _are_reads_legal(schedule, set(moved)):
        return
    scratchpad_states = {stage: stage.state for stage in moved}
    for stage, state in moved.items():
        stage.put(state)
    for stage, state in scratchpad_states.items():
        stage.put(state)
        if _are_reads_legal(schedule, {stage}):
            continue
        location = state.attachment
        assert location is not None
        if not can_write_back(stage, location):
            enclosing = schedule.at(location)
            raise BuildError(
                f"Cannot compute {stage.name} at loop {location.axis.name} of {enclosing.name} on machine "
                f"{target.config.name!r}: the loop must enclose all consumers of {stage.name} (or be a data loop of a "
                "root-level stage), so that its values stay live until their last use. Compute it at an outer loop, "
                "or at the root.",
                kind="limit",
            )
        stage.put(moved[stage])


def _consumer_scope(stage: EditedStage, target: Target) -> str:
    """The scratchpad from which all consumers read a stage; DRAM if they differ or load the stage themselves.

    No instruction writes results to inp or wgt: what is more than a copy is stored and loaded.
    """
    schedule, tensor = stage.schedule, stage.tensor
    scopes: set[str] = set()
    for consumer in schedule.consumers(tensor):
        if consumer.state.copy_of is tensor and consumer.state.scope in OPERANDS:
            scopes.add(DRAM)
        elif any(read.tensor is tensor for read in match_gemm_operands(consumer.state.computation) or ()):
            product = assign_layouts(schedule, target.config).gemms[consumer.tensor]
            reads = () if product is None else (product.data, product.weight)
            scopes.update(target.memory_of(product, read).name for read in reads if read.tensor is tensor)
        else:
            computation = consumer.state.computation
            other_reads = (read.node for read in computation.reads if read.tensor is tensor)
            scopes.update(target.memory_of(None, read, computation).name for read in other_reads)
    if scopes <= {target.acc.name}:
        return target.acc.name
    return scopes.pop() if len(scopes) == 1 and is_loadable(stage.state.computation.bodies[0]) else DRAM


def _are_reads_legal(schedule: Edit, moved: set[EditedStage]) -> bool:
    """Whether every read still gets its value with these stages in a scratchpad."""
    try:
        check_reads(schedule, "build", set(moved))
    except LegalityError:
        return False
    return True
