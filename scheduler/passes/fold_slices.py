"""Parts of tensors are read where they lie: a stage that only says where values lie is an address for its readers.

``part[n, y, x, c] = whole[n, y + 3, x, c + 32]`` stores nothing: who reads ``part[.., c]`` reads ``whole[.., c + 32]``.
"""

from lathe.frontend import Computation, Tensor, as_affine
from lathe.frontend.arith.substitution import substitute
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis, Read
from lathe.scheduler.layout.vector_type import whole_elements
from lathe.scheduler.passes.fold_reshapes import is_unscheduled
from lathe.scheduler.passes.widen_accumulators import with_computation
from lathe.scheduler.rewriting.rewrite import rewrite_reads
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.target.target import Target

IMAGE_RANK = 4
"""From so many dimensions on, those between the first and the last are taken for such that no lanes run along."""


def fold_slices(schedule: Edit, target: Target) -> None:
    """Let untouched stages that read a part of a tensor read, in place, the tensor."""
    for stage in list(schedule.stages):
        if (source := part_read(stage, target)) is None:
            continue
        for reader in schedule.readers(stage.tensor):
            reader.put(with_computation(_past(reader.state.computation, stage, source), reader.state.tensors))
        schedule.remove(stage)


def part_read(stage: StageView, target: Target) -> Read | None:
    """What an untouched stage reads that is nothing but a part of it, along each dimension from some index on.

    None, too, where the part begins within a block of lanes: its values would come to other lanes than hold them.
    """
    state, schedule = stage.state, stage.schedule
    body = state.computation.bodies[0]
    axes = state.computation.axes
    if not isinstance(body, Read) or len(state.tensors) > 1 or len(body.indices) != len(axes):
        return None
    readers = schedule.readers(stage.tensor)
    if not readers or stage.tensor in schedule.outputs or body.tensor.shape == stage.tensor.shape:
        return None
    if not all(is_unscheduled(each) for each in (stage, *readers)) or schedule.maker(body.tensor) in (None, stage):
        return None
    if has_layout(schedule, stage.tensor) or has_layout(schedule, body.tensor):
        return None
    free = range(1, len(axes) - 1) if len(axes) >= IMAGE_RANK and target.near.element.rows == 1 else range(0)
    step = whole_elements(target.config)
    for dim, (axis, index) in enumerate(zip(axes, body.indices, strict=True)):
        affine = as_affine(index)
        if affine is None or axis.start or {**affine.coefficients} != {axis: 1}:
            return None
        if dim not in free and affine.const % step:
            return None
    return body


def has_layout(schedule: ScheduleView, tensor: Tensor) -> bool:
    """Whether a command has said how a tensor lies in DRAM."""
    return schedule.state.views.get(tensor, tensor) in schedule.layouts


def _past(computation: Computation, part: StageView, source: Read) -> Computation:
    """The computation reading what a part is of instead of the part."""
    axes: tuple[Axis, ...] = part.state.computation.axes

    def whole(read: Read) -> Read:
        indices = tuple(substitute(index, dict(zip(axes, read.indices, strict=True))) for index in source.indices)
        return Read(source.tensor, indices)

    def body(expr: Expr) -> Expr:
        return rewrite_reads(expr, part.tensor, whole)

    return computation.mapped(body)
