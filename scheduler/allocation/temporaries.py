"""Temporary vectors of acc that a stage needs besides its buffers: for computed operands, and for byte planes."""

from collections.abc import Mapping

from lathe.configs import HardwareConfig
from lathe.frontend import Tensor
from lathe.frontend.arith.strip_casts import as_bare_axis
from lathe.frontend.expr.nodes import Read, Reduce
from lathe.isa.table import alu_operations
from lathe.scheduler.allocation.allocation import largest_size
from lathe.scheduler.isel.rules.alu_expressions import temporaries, temporaries_of_operand
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.layout.rescaling import missing_extensions, rescaling_of
from lathe.scheduler.layout.store_forms import PLANES
from lathe.scheduler.layout.vector_type import depth_of
from lathe.scheduler.loop_ir.stage_region import StageRegion
from lathe.scheduler.schedule_ir.memories import ACC, DRAM, OPERANDS
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import StageState

SHARE = 8
"""Temporaries take up to 1/SHARE of acc; a chunk that needs more is split."""


def required_temporaries(
    schedule: ScheduleView,
    config: HardwareConfig,
    placed: Mapping[StageView, StageRegion],
    physical: Mapping[StageView, PhysicalLayout],
    aliases: Mapping[StageView, StageView],
) -> dict[StageView, int]:
    """The temporaries to reserve for each stage, in vectors; stages that need none are left out."""
    on_chip = {tensor for stage in schedule.stages if stage.state.scope != DRAM for tensor in stage.state.tensors}
    operands = {t for stage in schedule.stages if stage.state.scope in OPERANDS for t in stage.state.tensors}
    required: dict[StageView, int] = {}
    limit = max(depth_of(config, ACC) // SHARE, 1)
    for stage in schedule.stages:
        state = stage.state
        if state.scope == DRAM and keeps_source(schedule, stage) and state.tensor.dtype in PLANES:
            required[stage] = min(largest_size(placed[stage], physical[stage]), limit)
        if state.scope != ACC or any(tensor in operands for tensor in _read(state) if state.computation.reduce_axes):
            continue  # GEMM needs no temporaries
        owner = aliases.get(stage)
        tiles, singles = of_computation(state, config, owner.tensor if owner is not None else None)
        stored = {read.tensor for read in state.computation.reads if read.tensor.computation is not None} - on_chip
        if any(tensor.dtype in PLANES for tensor in stored):
            tiles = max(tiles, 1)
        if tiles or singles:
            required[stage] = min(tiles * largest_size(placed[stage], physical[stage]), max(limit, tiles)) + singles
    return required


def keeps_source(schedule: ScheduleView, stage: StageView) -> bool:
    """Whether a store must not destroy its source in a scratchpad, because it, or another stage, reads it again.

    A store that shares loops with others reads it again in each iteration, if it is computed outside these loops.
    """
    computation = stage.state.computation
    body = computation.bodies[0]
    if not isinstance(body, Read) or schedule.scope_of(body.tensor) == DRAM:
        return False
    producer = schedule.producer(body.tensor)
    if producer and producer.enclosing != stage and producer.state.attachment != stage.state.attachment:
        return True
    plain = {as_bare_axis(index) for index in body.indices}
    once = all(axis in plain for axis in computation.axes if axis.extent > 1)
    return not once or schedule.consumers(body.tensor) != [stage]


def _read(state: StageState) -> list[Tensor]:
    return [read.tensor for read in state.computation.reads]


def of_computation(state: StageState, config: HardwareConfig, aliased: object = None) -> tuple[int, int]:
    """The temporaries of a stage's expression: how many of the size of the result, and how many single vectors."""
    rescaling = rescaling_of(state.computation)
    if rescaling is not None and not missing_extensions(rescaling, config):
        return 0, 0
    body, operations = state.computation.bodies[0], alu_operations(config)
    if isinstance(body, Reduce):
        return temporaries_of_operand(body.body, operations)
    return (0, 0) if isinstance(body, Read) else temporaries(body, operations, aliased)
