"""Reductions over windows that do not overlap, such as the greatest of 2×2 values: each value is read once."""

from collections.abc import Sequence

from lathe.frontend import Axis, Computation, as_affine
from lathe.frontend.expr.expr_base import Expr
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.schedule_ir.schedule import StageView


def reads_windows_apart(reader: StageView, stage: StageView) -> bool:
    """Whether a reduction of the ALU takes each value of a stage once: windows are no longer than steps."""
    computation = reader.state.computation
    if match_gemm_operands(computation) is not None or computation.where is not None or len(computation.bodies) > 1:
        return False
    (read, *others) = computation.reads
    return not others and read.tensor in stage.state.tensors and _moves_by_windows(computation, read.indices)


def _moves_by_windows(computation: Computation, indices: Sequence[Expr]) -> bool:
    """Whether indices are steps of an axis with a window no longer than they are, or the window by itself."""
    moving: list[Axis] = []
    inside: list[Axis] = []
    for index in indices:
        affine = as_affine(index)
        if affine is None or affine.const:
            return False
        steps = {axis: step for axis, step in affine.coefficients.items() if axis in computation.axes}
        window = {axis: step for axis, step in affine.coefficients.items() if axis not in steps}
        if len(steps) > 1 or len(window) > 1 or any(step != 1 for step in window.values()):
            return False
        if any(axis.start or step < max((each.extent for each in window), default=1) for axis, step in steps.items()):
            return False
        moving += steps
        inside += window
    return (
        moving == list(computation.axes)
        and bool(inside)
        and sorted(map(id, inside)) == sorted(map(id, computation.reduce_axes))
    )
