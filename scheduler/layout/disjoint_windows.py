"""Reductions over disjoint windows, such as 2×2 max pooling with stride 2: each input element is read at most once."""

from collections.abc import Sequence

from lathe.frontend import Axis, Computation, as_affine
from lathe.frontend.expr.expr_base import Expr
from lathe.scheduler.rewriting.matchers import match_gemm_operands
from lathe.scheduler.schedule_ir.schedule_state import StageView


def reads_disjoint_windows(reader: StageView, stage: StageView) -> bool:
    """Whether an ALU reduction reads each element of a stage at most once: windows are no longer than their strides."""
    computation = reader.state.computation
    if match_gemm_operands(computation) is not None or computation.where is not None or len(computation.bodies) > 1:
        return False
    (read, *others) = computation.reads
    return not others and read.tensor in stage.state.tensors and _moves_by_windows(computation, read.indices)


def _moves_by_windows(computation: Computation, indices: Sequence[Expr]) -> bool:
    """Whether each index is ``stride * axis + window`` with a window of at most ``stride``, or only a window axis."""
    moving: list[Axis] = []
    inside: list[Axis] = []
    for index in indices:
        affine = as_affine(index)
        if affine is None or affine.const:
            return False
        strides = {axis: c for axis, c in affine.coefficients.items() if axis in computation.axes}
        window = {axis: c for axis, c in affine.coefficients.items() if axis not in strides}
        if len(strides) > 1 or len(window) > 1 or any(c != 1 for c in window.values()):
            return False
        if any(axis.start or c < max((each.extent for each in window), default=1) for axis, c in strides.items()):
            return False
        moving += strides
        inside += window
    return (
        moving == list(computation.axes)
        and bool(inside)
        and sorted(map(id, inside)) == sorted(map(id, computation.reduce_axes))
    )
