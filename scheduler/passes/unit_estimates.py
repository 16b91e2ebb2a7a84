"""Cycles of products of each channel with a weight of its own: on the matrix core with diagonal weights, or the ALU."""

from dataclasses import dataclass
from math import prod

from lathe.configs import HardwareConfig
from lathe.frontend.nodes import Axis, Read
from lathe.scheduler.passes.tiling.cycles import HANDLING
from lathe.scheduler.state.memories import DATA, NEAR, WEIGHTS
from lathe.scheduler.state.schedule import StageView
from lathe.scheduler.state.stage import Lanes
from lathe.scheduler.target.element import element_of, loaded_bytes
from lathe.scheduler.target.elements import Physical
from lathe.scheduler.target.products import Product, lanes_of_operand


@dataclass(frozen=True)
class Estimate:
    """Cycles of a product with diagonal weights on the matrix core, about, and of the same on the ALU."""

    matrix: int
    alu: int


def estimate(stage: StageView, product: Product, config: HardwareConfig, steps_of_alu: int) -> Estimate:
    """Loads hide behind products, but not behind the ALU, for which the compute unit loads.

    ``steps_of_alu``: the ALU's for each product.
    """
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
    alu = cells * taps * steps_of_alu + loads_of_alu * config.memory.cycles_per_beat
    return Estimate(matrix + latency, alu + latency)


def _beats(read: Read, product: Product, scope: str, config: HardwareConfig) -> int:
    """Beats of the bus that bring an operand once."""
    lanes = lanes_of_operand(product, DATA if read is product.data else WEIGHTS, config)
    if scope == NEAR and lanes.is_diagonal:
        lanes = Lanes(None, lanes.cols)
    elements = Physical(read.tensor.shape, lanes, element_of(config, scope)).count
    return -(-elements * loaded_bytes(config, scope, read.tensor.dtype) // config.bus_bytes)
