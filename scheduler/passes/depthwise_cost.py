"""Cost model of depthwise GEMMs: estimated cycles on the matrix core with diagonal weights, and on the ALU."""

from dataclasses import dataclass
from math import ceil, prod

from lathe.configs import HardwareConfig
from lathe.frontend import Tensor
from lathe.frontend.expr.nodes import Axis, Read
from lathe.scheduler.cost.cost_model import TRANSFER_OVERHEAD
from lathe.scheduler.layout.layout_transfer import operand_layout
from lathe.scheduler.layout.match_gemm import GemmMatch, gemm_operand_layout, is_computed
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.layout.vector_relayout import conversion_cycles_of_span, conversions_needed
from lathe.scheduler.layout.vector_type import loaded_bytes, vector_type_of
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.schedule_ir.memories import ACC, INP, WGT
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import VectorLayout
from lathe.scheduler.tiling.fusion_groups import is_padding

CONVERSION_OVERHEAD = 1.25
"""Overhead factor of a layout conversion: it waits for the stores before it, and the loads after it wait for it."""


@dataclass(frozen=True)
class Estimate:
    """Estimated cycles of a depthwise GEMM: on the matrix core with diagonal weights, and on the ALU."""

    matrix: int
    alu: int


def estimate(stage: StageView, gemm: GemmMatch, config: HardwareConfig, alu_cycles: int) -> Estimate:
    """Estimate both: loads overlap with GEMMs, but not with the ALU, for which the compute unit loads by itself.

    ``alu_cycles``: cycles of the ALU per product.
    """
    computation = stage.state.computation
    axes: list[Axis | None] = list(computation.axes)
    column, row = axes.index(gemm.column), None if gemm.row is None else axes.index(gemm.row)
    acc = vector_type_of(config, ACC)
    cells = PhysicalLayout(stage.tensor.shape, VectorLayout(row if acc.rows > 1 else None, column), acc).count
    taps = prod(axis.extent for axis in computation.reduce_axes)
    loads = sum(_bus_beats(read, gemm, scope, config) for scope, read in ((INP, gemm.data), (WGT, gemm.weight)))
    loads_of_alu = sum(_bus_beats(read, gemm, ACC, config) for read in (gemm.data, gemm.weight))
    latency = 2 * (config.memory.latency + TRANSFER_OVERHEAD)
    assert gemm.column is not None, f"no channels of {stage.name} run along diagonals"
    blocks = (ceil(gemm.column.extent / acc.cols), ceil(gemm.column.extent / vector_type_of(config, INP).grain))
    cycles = cells // blocks[0] * blocks[1] * taps  # blocks of a vector without channels are skipped
    matrix = max(cycles, loads * config.memory.cycles_per_beat)
    alu = cells * taps * alu_cycles + loads_of_alu * config.memory.cycles_per_beat
    conversions = _conversion_cycles(stage, gemm, config)
    if conversions:
        matrix += conversions
        alu += _rows(gemm, config) * config.memory.latency  # the compute unit waits for its own loads
    matrix += _gap_cycles(stage, gemm, config)
    return Estimate(matrix + latency, alu + latency)


def _conversion_cycles(stage: StageView, gemm: GemmMatch, config: HardwareConfig) -> int:
    """Cycles of the layout conversions that stored data need before the GEMM loads them, if it is their only GEMM.

    A conversion loads the data, multiplies and stores them; loads and stores share the bus.
    """
    conversions, schedule = conversions_needed(config), stage.schedule
    stored = _stored_operand(stage, gemm, config)
    if not conversions or stored is None or not _depends_on_gemm(schedule, stored[0]):
        return 0
    acc = vector_type_of(config, ACC)
    tensor, lanes = stored
    cells = PhysicalLayout(tensor.shape, VectorLayout(lanes.rows, lanes.cols), acc).count
    cycles = cells * conversion_cycles_of_span(config) * acc.cols // acc.span
    beats = -(-2 * cells * acc.lanes // config.bus_bytes) * config.memory.cycles_per_beat
    return ceil(conversions * max(cycles, beats) * CONVERSION_OVERHEAD)


def _gap_cycles(stage: StageView, gemm: GemmMatch, config: HardwareConfig) -> int:
    """Extra cycles of stores for data that a GEMM loads in wider vectors, if it is their only GEMM.

    The channels fill a part of the wider vector, and unused vectors follow, so each stored vector is its own burst.
    """
    stored, acc = _stored_operand(stage, gemm, config), vector_type_of(config, ACC)
    loaded = vector_type_of(config, INP)
    if stored is None or conversions_needed(config) or loaded.cols <= acc.cols:
        return 0
    tensor, lanes = stored
    cells = PhysicalLayout(tensor.shape, VectorLayout(lanes.rows, lanes.cols), acc).count
    contiguous = -(-cells * acc.lanes // config.bus_bytes)
    separate = PhysicalLayout(tensor.shape, VectorLayout(lanes.rows, lanes.cols), loaded).count * (
        loaded.cols // acc.cols
    )
    return max(separate * -(-acc.lanes // config.bus_bytes) - contiguous, 0) * config.memory.cycles_per_beat


def _stored_operand(stage: StageView, gemm: GemmMatch, config: HardwareConfig) -> tuple[Tensor, VectorLayout] | None:
    """The computed tensor that a GEMM loads as data, before paddings of it, if no other GEMM reads it; else None.

    With the vector layout in which the GEMM loads it: a padding may have other dimensions.
    """
    schedule, read, lanes = stage.schedule, gemm.data, gemm_operand_layout(gemm, INP, config)
    producer = schedule.producer(read.tensor)
    while producer is not None and is_padding(producer) and schedule.consumers(read.tensor) == [stage]:
        stage, (access,) = producer, producer.state.computation.reads
        read, lanes = access.node, operand_layout(producer.state.computation, access, lanes, config)
        producer = schedule.producer(read.tensor)
    others = (each for each in schedule.consumers(read.tensor) if each is not stage)
    read_by_others = any(match_gemm_operands(each.state.computation) is not None or is_padding(each) for each in others)
    return None if read_by_others or not is_computed(read.tensor, schedule) else (read.tensor, lanes)


def _rows(gemm: GemmMatch, config: HardwareConfig) -> int:
    """The number of contiguous rows of the data's vectors; it takes about as many LOADs."""
    shape, lanes = gemm.data.tensor.shape, gemm_operand_layout(gemm, INP, config)
    count = PhysicalLayout(shape, VectorLayout(lanes.rows, lanes.cols), vector_type_of(config, ACC)).count
    innermost = [extent for dim, extent in enumerate(shape) if dim not in lanes.dims]
    return count // innermost[-1] if innermost else count


def _depends_on_gemm(schedule: ScheduleView, tensor: Tensor) -> bool:
    """Whether a tensor depends on a GEMM; what the ALU computes of inputs alone may be stored as it is loaded."""
    producer = schedule.producer(tensor)
    if producer is None:
        return False
    computation = producer.state.computation
    gemm = match_gemm_operands(computation) is not None and not producer.state.on_alu
    return gemm or any(_depends_on_gemm(schedule, read.tensor) for read in computation.reads)


def _bus_beats(read: Read, gemm: GemmMatch, scope: str, config: HardwareConfig) -> int:
    """Beats of the bus for loading an operand once."""
    lanes = gemm_operand_layout(gemm, INP if read is gemm.data else WGT, config)
    if scope == ACC and lanes.is_diagonal:
        lanes = VectorLayout(None, lanes.cols)
    vectors = PhysicalLayout(read.tensor.shape, lanes, vector_type_of(config, scope)).count
    return -(-vectors * loaded_bytes(config, scope, read.tensor.dtype) // config.bus_bytes)
