"""In-place aliasing: stages computed over an operand, since ALU instructions overwrite one and GEMM accumulates."""

from collections.abc import Mapping

from lathe.configs import HardwareConfig
from lathe.frontend import Computation, Tensor
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.isa.table import alu_operations
from lathe.scheduler.isel.rules import RULES
from lathe.scheduler.isel.rules.alu_expressions import can_take_over
from lathe.scheduler.isel.select_rule import rule_of
from lathe.scheduler.layout.accumulate_in_place import SumInPlace, sum_in_place
from lathe.scheduler.layout.physical_layout import split_dims_of
from lathe.scheduler.layout.rescaling import rescaling_of
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.schedule_ir.memories import ACC
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import VectorLayout


def find_aliases(schedule: ScheduleView, config: HardwareConfig) -> dict[StageView, StageView]:
    """For each element-wise stage in acc that can be computed in place, the stage whose buffer it aliases.

    It must be the operand's only consumer, read it at the very same index, be computed at the same loop over the same
    box, have its dimensions in the same order, and start its chain of operations with it. Of an in-place sum
    (``accumulate_in_place.py``), the GEMM aliases its addend, and the sum aliases the GEMM.
    """
    placed = place_stages(schedule)
    aliases: dict[StageView, StageView] = {}
    slots = {stage: stage.state.buffer_count for stage in schedule.stages}
    order = {stage: number for number, stage in enumerate(schedule.stages)}
    for stage in schedule.stages:
        state = stage.state
        if state.scope != ACC or state.computation.reduce_axes or state.reuse or not RULES[rule_of(stage)].in_place:
            continue
        both = sum_in_place(schedule, stage) if rule_of(stage) == "alu" else None
        if both is not None and rule_of(both.brought) == "gemm" and _in_place(both, placed):
            aliases.update({both.brought: both.begun, stage: both.brought})
            continue
        producers = {each for read in state.computation.reads if (each := schedule.producer(read.tensor)) is not None}
        for producer in sorted(producers, key=order.__getitem__):
            if producer is stage or producer.state.scope != ACC or schedule.consumers(producer.tensor) != [stage]:
                continue
            if producer.state.reuse or producer.state.storage or state.storage:
                continue  # later iterations read its values again, or the user has chosen its storage
            if None not in (slots[stage], slots[producer]) and slots[stage] != slots[producer]:
                continue  # both ask for a number of slots, and not the same
            if producer.tensor.dtype not in ("int8", "int16", "int32") or not _same_place(stage, producer):
                continue
            if not _same_order(stage, producer):
                continue
            here, there = placed[stage], placed[producer]
            if here.low != there.low or here.extent != there.extent:
                continue
            if _identical_index(stage, producer) and may_take_over(state.computation, config, producer.tensor):
                aliases[stage] = producer
                slots[stage] = slots[stage] or slots[producer]
                break
    return aliases


def _in_place(both: SumInPlace, placed: Mapping[StageView, StageRegion]) -> bool:
    """Whether a sum and its operands are in acc, in no user or reuse buffer, at the same loop over the same box."""
    here = placed[both.added]
    return both.begun.tensor.dtype in ("int8", "int16", "int32") and all(
        each.state.scope == ACC
        and not (each.state.reuse or each.state.storage)
        and each.state.buffer_count is None
        and _same_place(each, both.added)
        and _same_order(each, both.added)
        and (placed[each].low, placed[each].extent) == (here.low, here.extent)
        for each in (both.begun, both.brought, both.added)
    )


def may_take_over(computation: Computation, config: HardwareConfig, tensor: Tensor) -> bool:
    """Whether an element-wise computation can overwrite one of its operands."""
    rescaling = rescaling_of(computation)
    if rescaling is None:
        return can_take_over(computation.bodies[0], alu_operations(config), tensor)
    # RESCALE overwrites its first operand; if both are the same tensor, it is read before it is written.
    return [term.data.tensor is tensor for term in rescaling.terms] in ([True], [True, False], [True, True])


def _same_place(stage: StageView, producer: StageView) -> bool:
    a, b = stage.state.attachment, producer.state.attachment
    return a == b


def _same_order(stage: StageView, producer: StageView) -> bool:
    """Whether two stages have the same address order for any layout; split dimensions can change it.

    A consumer of a slice has another shape, which may not be split.
    """
    own, others = stage.tensor.shape, producer.tensor.shape
    return own == others or all(
        split_dims_of(stage.schedule, own, VectorLayout(None, dim))
        == split_dims_of(stage.schedule, others, VectorLayout(None, dim))
        for dim in range(len(own))
    )


def _identical_index(stage: StageView, producer: StageView) -> bool:
    axes = stage.state.computation.axes
    for read in stage.state.computation.reads:
        if read.tensor is not producer.tensor:
            continue
        if len(read.indices) != len(axes):
            return False
        if any(as_bare_axis(index) is not axis for index, axis in zip(read.indices, axes, strict=True)):
            return False
    return True
