"""``reorder``: loops are permuted."""

from dataclasses import replace

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.fused_loops import fused_stages
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import ComputeAt, StageState


def reorder(stage: EditedStage, *axes: "AxisLike") -> None:
    """Permute the given loops into the given order, at the positions that they hold together; other loops stay.

    Before::

        for i in 0..64:
          for j in 0..96:
            C[i, j] = 0
            for k in 0..128:
              C[i, j] += A[i, k] * B[j, k]

    After ``s[C].reorder(k, i)``::

        chunk(j in 0..96, i in 0..64): C[i, j] = 0
        for k in 0..128:
          for j in 0..96:
            for i in 0..64:
              C[i, j] += A[i, k] * B[j, k]

    Updates of a reduction over wrap-around integers, minimum or maximum commute, so reduction loops may move freely.
    Stages that share all the given loops with this one are reordered alike. Raises ScheduleError for an axis that is
    not a present loop of this stage, or one given twice. TVM's reorder, Tiramisu's interchange.
    """
    found = [stage.find(axis, "reorder") for axis in axes]
    for position, axis in enumerate(found):
        if axis in found[:position]:
            raise ScheduleError(
                f"axes of reorder on stage {stage.name} must be different loops, not {axis.name!r} twice.",
                kind="argument",
            )
    changes: dict[StageView, StageState] = {}
    for each, loops in fused_stages(stage, tuple(found)).items():
        order = iter(loops)
        leaves = tuple(next(order) if leaf in loops else leaf for leaf in each.state.leaves)
        changes[each] = replace(each.state, leaves=leaves)
    for each, state in changes.items():  # shared loops are the outermost ones, in their new order
        attachment = state.attachment
        if attachment is not None and stage.schedule.at(attachment) in changes and attachment.loops:
            count = len(attachment.loops)
            axis = changes[stage.schedule.at(attachment)].leaves[count - 1]
            changes[each] = replace(state, attachment=ComputeAt(attachment.enclosing, axis, state.leaves[:count]))
    commit(stage.schedule, changes, "reorder")
