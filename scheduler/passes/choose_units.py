"""Which unit multiplies each channel by weights of its own: the matrix core, with diagonal weights, or the ALU.

The matrix core takes a step for each tap of an element of the result, where the ALU takes eight. But elements of
diagonal weights are mostly zeros, which are loaded too: where few pixels use them, the ALU is done before that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from lathe.configs import HardwareConfig
from lathe.frontend.nodes import Axis, Read
from lathe.scheduler.passes.channel_scales import as_sums, is_scale
from lathe.scheduler.passes.tiling.cycles import HANDLING
from lathe.scheduler.state.edit import Edit
from lathe.scheduler.state.memories import DATA, DRAM, NEAR, WEIGHTS
from lathe.scheduler.state.schedule import ScheduleView, StageView
from lathe.scheduler.state.stage import Lanes
from lathe.scheduler.target.diagonal_products import diagonal_product
from lathe.scheduler.target.element import element_of, loaded_bytes
from lathe.scheduler.target.elements import Physical
from lathe.scheduler.target.lanes import plan_lanes
from lathe.scheduler.target.products import Product, lanes_of_operand
from lathe.scheduler.target.target import Target

STEPS_OF_ALU = 8
"""Steps of the ALU for a product that is added: copied to a temporary (3), multiplied (3), added (2)."""
STEPS_OF_SCALE = 3
"""Steps of the ALU for a product that is the result: multiplied."""


@dataclass(frozen=True)
class Estimate:
    """Cycles of a product with diagonal weights on the matrix core, about, and of the same on the ALU."""

    matrix: int
    alu: int


def choose_units(schedule: Edit, target: Target) -> None:
    """Leave to the ALU what it computes in fewer cycles, of stages that nobody has given operands or a rule.

    Products element by element stay with it, unless the matrix core takes fewer cycles.
    """
    for stage, summed in [*as_sums(schedule)]:
        before = stage.state
        stage.put(summed)
        product = plan_lanes(schedule, target.config).products[stage.tensor]
        estimate = None if product is None or not product.diagonal else _estimate(stage, product, target.config)
        if estimate is None or estimate.alu <= estimate.matrix:
            stage.put(before)
    products = plan_lanes(schedule, target.config).products
    for stage in schedule.stages:
        product = products[stage.tensor]
        if product is None or not product.diagonal or not _is_open(stage, product):
            continue
        estimate = _estimate(stage, product, target.config)
        if estimate.alu < estimate.matrix:
            stage.change(on_alu=True)


def units_and_why(schedule: ScheduleView, target: Target) -> Iterator[tuple[str, str]]:
    """Stages of a schedule, as it is after ``choose_units``, that have diagonal weights or could, by name, and why."""
    config = target.config
    plan = plan_lanes(schedule, config)
    for stage in schedule.stages:
        product = plan.products[stage.tensor]
        if product is None and stage.state.on_alu:
            product = diagonal_product(stage.state.computation, config, schedule, plan.known, None, ())
        if product is None or not product.diagonal:
            continue
        estimate = _estimate(stage, product, config)
        matrix, alu = f"matrix core about {estimate.matrix:,} cycles", f"ALU about {estimate.alu:,}"
        if not stage.state.on_alu:
            given = "" if _is_open(stage, product) else ", as its operands or its rule say"
            yield stage.name, f"diagonal weights{given} ({matrix}, {alu})"
        elif estimate.alu < estimate.matrix:
            yield stage.name, f"no diagonal weights, which take longer to load than the ALU computes ({matrix}, {alu})"
        else:
            yield (
                stage.name,
                f"no diagonal weights, for lanes that agree with those of its neighbours ({matrix}, {alu})",
            )


def _is_open(stage: StageView, product: Product) -> bool:
    """Whether nobody has said what computes a stage: by a rule, or by a scratchpad for an operand."""
    scopes = {stage.schedule.scope_of(read.tensor) for read in (product.data, product.weight)}
    return stage.state.pragma is None and scopes == {DRAM}


def _estimate(stage: StageView, product: Product, config: HardwareConfig) -> Estimate:
    """Loads hide behind products, but not behind the ALU, for which the compute unit loads."""
    computation = stage.state.computation
    axes: list[Axis | None] = list(computation.axes)
    column, row = axes.index(product.column), None if product.row is None else axes.index(product.row)
    near = element_of(config, NEAR)
    cells = Physical(stage.tensor.shape, Lanes(row if near.rows > 1 else None, column), near).count
    taps = prod(axis.extent for axis in computation.reduce_axes)
    loads = sum(
        _beats(read, product, scope, config) for scope, read in ((DATA, product.data), (WEIGHTS, product.weight))
    )
    loads_of_alu = sum(_beats(read, product, NEAR, config) for read in (product.data, product.weight))
    latency = 2 * (config.memory.latency + HANDLING)
    matrix = max(cells * product.steps(computation, config), loads * config.memory.cycles_per_beat)
    alu = (
        cells * taps * (STEPS_OF_SCALE if is_scale(computation) else STEPS_OF_ALU)
        + loads_of_alu * config.memory.cycles_per_beat
    )
    return Estimate(matrix + latency, alu + latency)


def _beats(read: Read, product: Product, scope: str, config: HardwareConfig) -> int:
    """Beats of the bus that bring an operand once."""
    lanes = lanes_of_operand(product, DATA if read is product.data else WEIGHTS, config)
    if scope == NEAR and lanes.is_diagonal:
        lanes = Lanes(None, lanes.cols)
    elements = Physical(read.tensor.shape, lanes, element_of(config, scope)).count
    return -(-elements * loaded_bytes(config, scope, read.tensor.dtype) // config.bus_bytes)
