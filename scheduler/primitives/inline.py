"""``inline``: a stage becomes part of its consumers' expressions."""

from dataclasses import replace

from lathe.frontend import substitute
from lathe.frontend.expr.expr_base import DEPTH_LIMIT, Expr, depth
from lathe.frontend.expr.nodes import Axis, Read
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.recurrences import recurrence_of
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.rewriting.rewrite import transform
from lathe.scheduler.schedule_ir.edit import EditedStage


def inline(stage: EditedStage) -> None:
    """Replace every read of this stage by its expression, and remove the stage.

    Before::

        for i in 0..60:
          B[i] = A[i] + 1
        for i in 0..60:
          C[i] = B[i] * 2

    After ``s[B].inline()``::

        for i in 0..60:
          C[i] = (A[i] + 1) * 2

    Raises ScheduleError if the stage is an output or a reduction, its loops have been changed or annotated, it reads
    itself, it is in a scratchpad, or other stages are computed inside it. Halide's and Tiramisu's inline.
    """
    schedule, state = stage.schedule, stage.state
    output = next((tensor for tensor in state.tensors if tensor in schedule.outputs), None)
    if output is not None:
        raise ScheduleError(f"Cannot inline {stage.name}: {output.name} is an output of the program.", kind="legality")
    if state.computation.reduce_axes:
        raise ScheduleError(
            f"Cannot inline {stage.name}: it is a reduction. Compute it at a loop of its consumer with compute_at.",
            kind="limit",
        )
    consumers = list(dict.fromkeys(consumer for tensor in state.tensors for consumer in schedule.consumers(tensor)))
    if stage in consumers:
        raise ScheduleError(f"Cannot inline {stage.name}: it reads its own earlier values.", kind="legality")
    inside = ", ".join(each.name for each in schedule.attached(stage))
    # stages of a recurrence share loops from the start
    placed = state.attachment is not None and not (state.attachment.loops and recurrence_of(schedule, stage))
    if state.has_changed_loops or state.unrolled or state.annotations or placed or state.scope != "dram" or inside:
        reason = f"{inside} is computed inside it" if inside else "it has a compute location, a scope, or changed loops"
        raise ScheduleError(f"Cannot inline {stage.name}: {reason}. Call inline before other primitives.", kind="limit")
    bodies, axes = dict(zip(state.tensors, state.computation.bodies, strict=True)), state.computation.axes

    def value(read: Read) -> Expr:
        if read.tensor not in bodies:
            return read
        point: dict[Axis, Expr] = dict(zip(axes, read.indices, strict=True))
        return substitute(bodies[read.tensor], point)

    changes = {}
    for consumer in consumers:
        new = consumer.state.computation.mapped(lambda expr: transform(expr, lambda _: None, value))
        if max(depth(each) for each in new.bodies) > DEPTH_LIMIT:
            raise ScheduleError(
                f"Cannot inline {stage.name}: expressions of {consumer.name} would nest more than {DEPTH_LIMIT} deep. "
                "Inline fewer stages.",
                kind="limit",
            )
        changes[consumer] = replace(consumer.state, computation=new)
    stages = [each for each in schedule.stages if each is not stage]
    commit(schedule, changes, "inline", stages=stages)
