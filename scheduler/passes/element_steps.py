"""Steps of the compute unit for an element of a stage, about, before anything is decided of how it is made."""

from math import ceil, prod

from lathe.configs import HardwareConfig
from lathe.frontend import Computation, walk
from lathe.frontend.indices.plain import kept
from lathe.frontend.nodes import Binary, Const, reads_data
from lathe.scheduler.algorithm.patterns import dimension_of, factors
from lathe.scheduler.state.memories import DATA
from lathe.scheduler.target.element import element_of


def element_steps(computation: Computation, config: HardwareConfig) -> int:
    """Of a product a step for each tap and block of what is summed; of the ALU one or two for each operation."""
    pair = factors(computation)
    reduced = prod(axis.extent for axis in computation.reduce_axes)
    if pair is None:
        operations = [node for body in computation.bodies for node in walk(body) if isinstance(node, Binary)]
        steps = sum(_steps(node) for node in operations if reads_data(node))
        return (steps + 2 * bool(computation.reduce_axes)) * reduced
    block = element_of(config, DATA).cols
    summed = [
        axis.extent
        for axis in computation.reduce_axes
        if all(dimension_of(operand, axis) is not None for operand in pair)
    ]
    inner = max(summed, default=1)
    return reduced // inner * ceil(inner / block) + 1


def _steps(operation: Binary) -> int:
    return 1 if any(isinstance(kept(side), Const) for side in (operation.lhs, operation.rhs)) else 2


__all__ = ["element_steps"]
