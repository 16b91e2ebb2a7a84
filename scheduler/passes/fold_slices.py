"""Fold slices: consumers of a slice read the sliced tensor at an offset, so that the slice is not computed.

``slice[n, y, x, c] = whole[n, y + 3, x, c + 32]`` is removed: a read of ``slice[.., c]`` becomes ``whole[.., c + 32]``.
"""

from lathe.frontend import Computation, Tensor, as_affine
from lathe.frontend.arith.substitution import substitute
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Read
from lathe.scheduler.layout.vector_type import largest_block
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.passes.widen_accumulators import with_computation
from lathe.scheduler.rewriting.rewrite import rewrite_reads
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.target.target import Target

IMAGE_RANK = 4
"""The rank from which the dimensions between the first and the last are taken to have no lanes, as of images."""


def fold_slices(schedule: Edit, target: Target) -> None:
    """Fold unscheduled slices, in place, into the reads of their consumers."""
    for stage in list(schedule.stages):
        if (source := match_slice(stage, target)) is None:
            continue
        for consumer in schedule.consumers(stage.tensor):
            consumer.put(with_computation(_bypass(consumer.state.computation, stage, source), consumer.state.tensors))
        schedule.remove(stage)


def match_slice(stage: StageView, target: Target) -> Read | None:
    """The read of a stage that only slices a tensor, with an offset along each dimension; else None.

    None, too, if the slice starts within a vector: its values would change lanes.
    """
    state, schedule = stage.state, stage.schedule
    body = state.computation.bodies[0]
    axes = state.computation.axes
    if not isinstance(body, Read) or len(state.tensors) > 1 or len(body.indices) != len(axes):
        return None
    consumers = schedule.consumers(stage.tensor)
    if not consumers or stage.tensor in schedule.outputs or body.tensor.shape == stage.tensor.shape:
        return None
    if not all(is_unscheduled(each) for each in (stage, *consumers)) or schedule.producer(body.tensor) in (None, stage):
        return None
    if has_layout(schedule, stage.tensor) or has_layout(schedule, body.tensor):
        return None
    outer_dims = range(1, len(axes) - 1) if len(axes) >= IMAGE_RANK and target.acc.vector_type.rows == 1 else range(0)
    block = largest_block(target.config)
    for dim, (axis, index) in enumerate(zip(axes, body.indices, strict=True)):
        affine = as_affine(index)
        if affine is None or axis.start or {**affine.coefficients} != {axis: 1}:
            return None
        if dim not in outer_dims and affine.const % block:
            return None
    return body


def has_layout(schedule: ScheduleView, tensor: Tensor) -> bool:
    """Whether a command has set the layout of a tensor in DRAM."""
    return schedule.state.views.get(tensor, tensor) in schedule.layouts


def _bypass(computation: Computation, slice_: StageView, source: Read) -> Computation:
    """The computation with reads of the slice replaced by reads of the sliced tensor."""
    axes: tuple[Axis, ...] = slice_.state.computation.axes

    def whole(read: Read) -> Read:
        indices = tuple(substitute(index, dict(zip(axes, read.indices, strict=True))) for index in source.indices)
        return Read(source.tensor, indices)

    def body(expr: Expr) -> Expr:
        return rewrite_reads(expr, slice_.tensor, whole)

    return computation.mapped(body)
