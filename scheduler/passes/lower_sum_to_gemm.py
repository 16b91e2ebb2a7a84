"""Lower sums to GEMM: an int8 sum (average pooling) becomes a GEMM with ones on the diagonal if that is faster.

The ALU takes two cycles to add a vector of int8 values, which the compute unit has to load first, by itself. The matrix
core takes one, and the load unit loads its operands during other work::

    sum[n, y, x, c] = sum over ry, rx of data[n, 2*y + ry, 2*x + rx, c]
    sum[n, y, x, c] = sum over ry, rx of data[n, 2*y + ry, 2*x + rx, c] * ones[c]
"""

import numpy as np

from lathe.frontend import Axis, Computation, Tensor
from lathe.frontend.arith.strip_casts import skip_value_preserving_casts
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import AxisRef, Binary, Cast, Read, Reduce, axes_of
from lathe.isa import AluOp
from lathe.scheduler.cost.stage_cost import alu_issue_cycles
from lathe.scheduler.layout.layout_assignment import assign_layouts
from lathe.scheduler.layout.match_gemm import GemmMatch
from lathe.scheduler.passes.depthwise_cost import estimate
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.passes.widen_accumulators import with_computation
from lathe.scheduler.rewriting.matchers import dim_indexed_by, is_plain_read, match_gemm_operands
from lathe.scheduler.schedule_ir.edit import Edit, EditedStage, fresh_name
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.target.target import Target


def lower_sum_to_gemm(schedule: Edit, target: Target) -> None:
    """Multiply what unscheduled stages sum by ones, in place, where the matrix core is faster than the ALU."""
    ones: dict[int, Tensor] = {}
    for stage in schedule.stages:
        summed = _summed(stage)
        axis = None if summed is None else _channels(stage, summed, target)
        if summed is None or axis is None or schedule.scope_of(summed.tensor) != DRAM:
            continue
        if not all(is_unscheduled(consumer) for consumer in schedule.consumers(stage.tensor)):
            continue  # the user's loops may not suit the vector layout of a GEMM
        if axis.extent not in ones:
            name = fresh_name(schedule, f"ones.{axis.extent}")
            ones[axis.extent] = Tensor(name, (axis.extent,), "int8")
        before = stage.state
        stage.put(with_computation(_with_ones(before.computation, summed, ones[axis.extent], axis), before.tensors))
        gemm = assign_layouts(schedule, target.config).gemms[stage.tensor]
        if gemm is None or not gemm.diagonal:
            stage.put(before)
            continue
        costs = estimate(stage, gemm, target.config, alu_issue_cycles(AluOp.ADD, immediate=False))
        if costs.alu <= costs.matrix:
            stage.put(before)
    used = {read.tensor for stage in schedule.stages for read in stage.state.computation.reads}
    constants = {tensor: np.ones(tensor.shape, np.int8) for tensor in ones.values() if tensor in used}
    schedule.update(constants={**schedule.state.constants, **constants})


def undo_sum_to_gemm(schedule: Edit, target: Target) -> None:
    """Remove the ones again, in place, from sums that layout conflicts have moved back to the ALU."""
    products = assign_layouts(schedule, target.config).gemms
    undone = set()
    for stage in schedule.stages:
        operands, gemm = match_gemm_operands(stage.state.computation), products[stage.tensor]
        if operands is None or (gemm is not None and gemm.diagonal) or not is_unscheduled(stage):
            continue  # a GEMM without diagonals would have what is summed as weights, and is undone, too
        ones = [read for read in operands if _is_ones(schedule, read.tensor)]
        if len(ones) == 1:
            (summed,) = (read for read in operands if read is not ones[0])
            stage.change(computation=_sum_of(stage.state.computation, Cast(summed, "int32")), on_alu=False)
            undone.add(ones[0].tensor)
    used = {read.tensor for stage in schedule.stages for read in stage.state.computation.reads}
    constants = schedule.state.constants.items()
    schedule.update(constants={tensor: value for tensor, value in constants if tensor in used or tensor not in undone})


def _summed(stage: EditedStage) -> Read | None:
    """The int8 tensor that an unscheduled stage sums in int32, as it is read; None if it computes anything else."""
    computation = stage.state.computation
    if not is_unscheduled(stage) or len(computation.bodies) != 1 or computation.where is not None:
        return None
    body = computation.bodies[0]
    if not isinstance(body, Reduce) or body.kind != "sum" or body.dtype != "int32":
        return None
    read = skip_value_preserving_casts(body.body)
    return read if is_plain_read(read) and read.dtype == "int8" else None


def _channels(stage: EditedStage, read: Read, target: Target) -> Axis | None:
    """The axis for the lanes of a sum: one that indexes a dimension of the read by itself.

    The axis of the assigned columns, which producers and consumers agree with, or else the longest.
    """
    axes = stage.state.computation.axes
    mixed = {axis for index in read.indices if len(axes_of(index)) > 1 for axis in axes_of(index)}
    unmixed = [axis for axis in reversed(axes) if dim_indexed_by(read, axis) is not None and axis not in mixed]
    along = assign_layouts(stage.schedule, target.config).layouts[stage.tensor].cols
    assigned = (axis for axis in unmixed if axis.extent > 1 and along is not None and axis is axes[along])
    return next(assigned, max(unmixed, key=lambda axis: axis.extent, default=None))


def _with_ones(computation: Computation, read: Read, ones: Tensor, axis: Axis) -> Computation:
    return _sum_of(computation, Binary("mul", Cast(read, "int32"), Cast(Read(ones, (AxisRef(axis),)), "int32")))


def _sum_of(computation: Computation, value: Expr) -> Computation:
    """The same sum over other values."""
    body = computation.bodies[0]
    assert isinstance(body, Reduce), f"{computation.name} is no sum"
    total = Reduce("sum", value, body.axes)
    return Computation(computation.name, computation.axes, computation.reduce_axes, (total,), computation.attrs)


def is_sum(stage: StageView, gemm: GemmMatch) -> bool:
    """Whether a GEMM is a sum with ones as weights, which the ALU would add without them."""
    return _is_ones(stage.schedule, gemm.weight.tensor)


def _is_ones(schedule: ScheduleView, tensor: Tensor) -> bool:
    ones = schedule.state.constants.get(tensor)
    return ones is not None and ones.ndim == 1 and bool((ones == 1).all())
