"""Issue cycles of micro-ops, and a rough estimate of compute cycles per vector of a stage before it is tiled."""

from math import ceil, prod

from lathe.configs import HardwareConfig
from lathe.frontend import Computation, walk
from lathe.frontend.arith.strip_casts import skip_value_preserving_casts
from lathe.frontend.expr.nodes import Binary, Const, reads_data
from lathe.isa import Alu, AluOp, Rescale
from lathe.isa.operands import usage_of
from lathe.scheduler.layout.vector_type import vector_type_of
from lathe.scheduler.rewriting.match_rescale import Rescaling
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


def alu_issue_cycles(operation: AluOp, *, immediate: bool) -> int:
    """Cycles per micro-op of an ALU operation with an immediate, or with two tensor operands."""
    return usage_of(Alu(operation, 0, 1, 1, 1, 0, 0, 0, 0, use_imm=immediate)).issue_cycles


def rescale_issue_cycles(rescaling: Rescaling) -> int:
    """Cycles per micro-op of RESCALE, with one operand or two."""
    return usage_of(Rescale(0, 1, 1, 1, 0, 0, 0, 0, add=len(rescaling.terms) > 1)).issue_cycles
