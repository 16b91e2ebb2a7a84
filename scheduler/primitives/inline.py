"""``inline``: a stage becomes part of what its readers compute."""

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
    """Compute, at every read of this stage, its expression; the stage itself is gone.

    Before::

        for i in 0..60:
          B[i] = A[i] + 1
        for i in 0..60:
          C[i] = B[i] * 2

    After ``s[B].inline()``::

        for i in 0..60:
          C[i] = (A[i] + 1) * 2

    Raises ScheduleError if the stage is an output or a reduction, if its loops have been changed or tagged, if it reads
    itself, if it lives in a scratchpad or other stages are computed inside it. Halide's and Tiramisu's inline.
    """
    schedule, state = stage.schedule, stage.state
    where = f"stage of inline must be one that only its readers need, not {stage.name!r}"
    output = next((tensor for tensor in state.tensors if tensor in schedule.outputs), None)
    if output is not None:
        raise ScheduleError(f"{where}, whose {output.name} is an output of the program.", kind="legality")
    if state.computation.reduce_axes:
        raise ScheduleError(
            f"stage of inline must be an expression of its own point, not {stage.name!r}, a reduction. Compute it "
            "where it is needed with compute_at.",
            kind="limit",
        )
    readers = list(dict.fromkeys(reader for tensor in state.tensors for reader in schedule.readers(tensor)))
    if stage in readers:
        raise ScheduleError(
            f"stage of inline must be an expression of other stages, not {stage.name!r}, which reads its own earlier "
            "values.",
            kind="legality",
        )
    inside = ", ".join(each.name for each in schedule.attached(stage))
    # stages of a cycle run together from the start
    placed = state.attachment is not None and not (state.attachment.loops and recurrence_of(schedule, stage))
    if state.is_touched or state.unrolled or state.annotations or placed or state.scope != "dram" or inside:
        reason = f"has {inside} computed inside it" if inside else "has a place, a scratchpad, or changed loops"
        raise ScheduleError(
            f"stage of inline must be as it was made, not {stage.name!r}, which {reason}. Call inline before other "
            "commands.",
            kind="limit",
        )
    bodies, axes = dict(zip(state.tensors, state.computation.bodies, strict=True)), state.computation.axes

    def value(read: Read) -> Expr:
        if read.tensor not in bodies:
            return read
        point: dict[Axis, Expr] = dict(zip(axes, read.indices, strict=True))
        return substitute(bodies[read.tensor], point)

    changes = {}
    for reader in readers:
        new = reader.state.computation.mapped(lambda expr: transform(expr, lambda _: None, value))
        if max(depth(each) for each in new.bodies) > DEPTH_LIMIT:
            raise ScheduleError(
                f"expressions of {reader.name} must nest at most {DEPTH_LIMIT} deep, not deeper, as they would with "
                f"{stage.name!r} inlined.",
                kind="limit",
            )
        changes[reader] = replace(reader.state, computation=new)
    stages = [each for each in schedule.stages if each is not stage]
    commit(schedule, changes, "inline", stages=stages)
