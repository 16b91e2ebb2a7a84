"""Cycles of products of each channel with a weight of its own: on the matrix core with diagonal weights, or the ALU."""

from dataclasses import dataclass
from math import ceil, prod

from lathe.configs import HardwareConfig
from lathe.frontend import Tensor
from lathe.frontend.expr.nodes import Axis, Read
from lathe.scheduler.cost.cost_model import HANDLING
from lathe.scheduler.layout.layout_transfer import lanes_read
from lathe.scheduler.layout.match_gemm import GemmMatch, is_computed, lanes_of_operand
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.layout.vector_relayout import conversions_needed, steps_of_span
from lathe.scheduler.layout.vector_type import element_of, loaded_bytes
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.schedule_ir.memories import ACC, INP, WGT
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import VectorLayout
from lathe.scheduler.tiling.fusion_groups import is_padding

ALONE = 1.25
"""How many times its steps, or its beats, a turn takes: it waits for what is stored before, and is waited for."""


@dataclass(frozen=True)
class Estimate:
    """Cycles of a product with diagonal weights on the matrix core, about, and of the same on the ALU."""

    matrix: int
    alu: int


def estimate(stage: StageView, product: GemmMatch, config: HardwareConfig, steps_of_alu: int) -> Estimate:
    """Loads hide behind products, but not behind the ALU, for which the compute unit loads.

    ``steps_of_alu``: the ALU's for each product.
    """
    computation = stage.state.computation
    axes: list[Axis | None] = list(computation.axes)
    column, row = axes.index(product.column), None if product.row is None else axes.index(product.row)
    near = element_of(config, ACC)
    cells = PhysicalLayout(stage.tensor.shape, VectorLayout(row if near.rows > 1 else None, column), near).count
    taps = prod(axis.extent for axis in computation.reduce_axes)
    loads = sum(_beats(read, product, scope, config) for scope, read in ((INP, product.data), (WGT, product.weight)))
    loads_of_alu = sum(_beats(read, product, ACC, config) for read in (product.data, product.weight))
    latency = 2 * (config.memory.latency + HANDLING)
    assert product.column is not None, f"no channels of {stage.name} run along diagonals"
    blocks = (
        ceil(product.column.extent / near.cols),
        ceil(product.column.extent / element_of(config, INP).grain),
    )
    steps = cells // blocks[0] * blocks[1] * taps  # parts of an element that hold no channel are left out
    matrix = max(steps, loads * config.memory.cycles_per_beat)
    alu = cells * taps * steps_of_alu + loads_of_alu * config.memory.cycles_per_beat
    turning = _turning(stage, product, config)
    if turning:
        matrix += turning
        alu += _rows(product, config) * config.memory.latency  # the compute unit waits for its own loads
    matrix += _filling(stage, product, config)
    return Estimate(matrix + latency, alu + latency)


def _turning(stage: StageView, product: GemmMatch, config: HardwareConfig) -> int:
    """Cycles of the turns for which stored data wait before a product loads them, if no other product does.

    Each loads the data, multiplies and stores them; loads and stores share the bus.
    """
    turns, schedule = conversions_needed(config), stage.schedule
    stored = _stored_for(stage, product, config)
    if not turns or stored is None or not _is_made_by_a_product(schedule, stored[0]):
        return 0
    near = element_of(config, ACC)
    tensor, lanes = stored
    cells = PhysicalLayout(tensor.shape, VectorLayout(lanes.rows, lanes.cols), near).count
    steps = cells * steps_of_span(config) * near.cols // near.span
    beats = -(-2 * cells * near.lanes // config.bus_bytes) * config.memory.cycles_per_beat
    return ceil(turns * max(steps, beats) * ALONE)


def _filling(stage: StageView, product: GemmMatch, config: HardwareConfig) -> int:
    """Cycles that stores take more for data that a product loads in wider elements, if no other product does.

    Channels that fill one stored element are followed by elements of any values, and each is a burst of its own.
    """
    stored, near = _stored_for(stage, product, config), element_of(config, ACC)
    loaded = element_of(config, INP)
    if stored is None or conversions_needed(config) or loaded.cols <= near.cols:
        return 0
    tensor, lanes = stored
    cells = PhysicalLayout(tensor.shape, VectorLayout(lanes.rows, lanes.cols), near).count
    together = -(-cells * near.lanes // config.bus_bytes)
    apart = PhysicalLayout(tensor.shape, VectorLayout(lanes.rows, lanes.cols), loaded).count * (
        loaded.cols // near.cols
    )
    return max(apart * -(-near.lanes // config.bus_bytes) - together, 0) * config.memory.cycles_per_beat


def _stored_for(stage: StageView, product: GemmMatch, config: HardwareConfig) -> tuple[Tensor, VectorLayout] | None:
    """What stages make and store of the data of a product, through borders around it, if no other product reads it.

    And the lanes in which the product wants it: a border may have other dimensions.
    """
    schedule, read, lanes = stage.schedule, product.data, lanes_of_operand(product, INP, config)
    maker = schedule.maker(read.tensor)
    while maker is not None and is_padding(maker) and schedule.readers(read.tensor) == [stage]:
        stage, (access,) = maker, maker.state.computation.reads
        read, lanes = access.node, lanes_read(maker.state.computation, access, lanes, config)
        maker = schedule.maker(read.tensor)
    others = (each for each in schedule.readers(read.tensor) if each is not stage)
    wanted = any(match_gemm_operands(each.state.computation) is not None or is_padding(each) for each in others)
    return None if wanted or not is_computed(read.tensor, schedule) else (read.tensor, lanes)


def _rows(product: GemmMatch, config: HardwareConfig) -> int:
    """Rows of the data's elements that adjoin; about as many LOADs bring them."""
    shape, lanes = product.data.tensor.shape, lanes_of_operand(product, INP, config)
    count = PhysicalLayout(shape, VectorLayout(lanes.rows, lanes.cols), element_of(config, ACC)).count
    innermost = [extent for dim, extent in enumerate(shape) if dim not in lanes.dims]
    return count // innermost[-1] if innermost else count


def _is_made_by_a_product(schedule: ScheduleView, tensor: Tensor) -> bool:
    """Whether products lead to a tensor; what the ALU makes of inputs alone may lie as it is loaded."""
    maker = schedule.maker(tensor)
    if maker is None:
        return False
    computation = maker.state.computation
    product = match_gemm_operands(computation) is not None and not maker.state.on_alu
    return product or any(_is_made_by_a_product(schedule, read.tensor) for read in computation.reads)


def _beats(read: Read, product: GemmMatch, scope: str, config: HardwareConfig) -> int:
    """Beats of the bus that bring an operand once."""
    lanes = lanes_of_operand(product, INP if read is product.data else WGT, config)
    if scope == ACC and lanes.is_diagonal:
        lanes = VectorLayout(None, lanes.cols)
    elements = PhysicalLayout(read.tensor.shape, lanes, element_of(config, scope)).count
    return -(-elements * loaded_bytes(config, scope, read.tensor.dtype) // config.bus_bytes)
