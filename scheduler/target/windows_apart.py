"""Reductions over windows that do not overlap, such as the greatest of 2×2 values: each value is read once."""

from collections.abc import Sequence

from lathe.frontend import Axis, Computation, as_affine
from lathe.frontend.operand import Expr
from lathe.scheduler.algorithm.patterns import factors
from lathe.scheduler.state.schedule import StageView


def reads_windows_apart(reader: StageView, stage: StageView) -> bool:
    """Whether a reduction of the ALU takes each value of a stage once: windows are no longer than steps."""
    computation = reader.state.computation
    if factors(computation) is not None or computation.where is not None or len(computation.bodies) > 1:
        return False
    (read, *others) = computation.reads
    return not others and read.tensor in stage.state.tensors and _moves_by_windows(computation, read.indices)


def _moves_by_windows(computation: Computation, indices: Sequence[Expr]) -> bool:
    axes, inside = computation.axes, set[Axis]()
    if len(indices) != len(axes):
        return False
    for axis, index in zip(axes, indices, strict=True):
        affine = as_affine(index)
        if affine is None or affine.const or axis.start:
            return False
        step = affine.coefficients.get(axis, 0)
        steps = {other: factor for other, factor in affine.coefficients.items() if other is not axis}
        inner = next(iter(steps), None)
        if step < 1 or len(steps) > 1 or (inner is not None and (steps[inner] != 1 or inner.extent > step)):
            return False
        inside |= set(steps)
    return bool(inside) and inside == set(computation.reduce_axes)
