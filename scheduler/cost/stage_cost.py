"""A rough estimate of compute cycles per vector of a stage, before layouts, units and tiles are chosen."""

from math import ceil, prod

from lathe.configs import HardwareConfig
from lathe.frontend import Computation, walk
from lathe.frontend.arith.strip_casts import skip_value_preserving_casts
from lathe.frontend.expr.nodes import Binary, Const, reads_data
from lathe.scheduler.layout.vector_type import vector_type_of
from lathe.scheduler.rewriting.matchers import dim_indexed_by, match_gemm_operands
from lathe.scheduler.schedule_ir.memories import INP


def cycles_per_vector(computation: Computation, config: HardwareConfig) -> int:
    """Cycles per vector: for a GEMM one for each tap and reduction block, on the ALU one or two for each operation."""
    pair = match_gemm_operands(computation)
    reduced = prod(axis.extent for axis in computation.reduce_axes)
    if pair is None:
        operations = [node for body in computation.bodies for node in walk(body) if isinstance(node, Binary)]
        steps = sum(_steps(node) for node in operations if reads_data(node))
        return (steps + 2 * bool(computation.reduce_axes)) * reduced
    block = vector_type_of(config, INP).cols
    summed = [
        axis.extent
        for axis in computation.reduce_axes
        if all(dim_indexed_by(operand, axis) is not None for operand in pair)
    ]
    inner = max(summed, default=1)
    return reduced // inner * ceil(inner / block) + 1


def _steps(operation: Binary) -> int:
    return (
        1 if any(isinstance(skip_value_preserving_casts(side), Const) for side in (operation.lhs, operation.rhs)) else 2
    )


__all__ = ["cycles_per_vector"]
