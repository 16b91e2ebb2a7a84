"""``after``, ``before``, ``between`` and ``then``: the order of stages, at the root or in shared loops."""

from dataclasses import replace

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.loop_ir.warmup_iterations import with_equal_warmups
from lathe.scheduler.primitives.resolve_location import is_root, of_the_same_schedule
from lathe.scheduler.primitives.shift import align
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike
from lathe.scheduler.schedule_ir.stage import ComputeAt


def after(stage: EditedStage, other: EditedStage, axis: "AxisLike | None" = None) -> None:
    """Run this stage after another, in shared loops down to ``axis`` of this stage.

    The outermost loops of the two are fused, one for one; in each iteration the other stage comes first. Before::

        for i in 0..60:
          B[i] = A[i] + 1
        for i in 0..60:
          C[i] = B[i] * 2

    After ``s[C].after(s[B], i)``::

        for i in 0..60:
          B[i] = A[i] + 1
          C[i] = B[i] * 2

    Without an axis, or with ``"root"``, this stage runs after the other has finished. Raises LegalityError, with a
    witness, if a value would be read before it is computed (``shift`` this stage, see ``s.smallest_shift``);
    ScheduleError if a stage is of another schedule, the other reads this one, or loops cannot be shared. From Tiramisu.
    """
    check_pair(stage, other, "after")
    if axis is None or is_root(axis):
        _order(other, stage, "after")
        return
    target = stage.find(axis, "after")
    count = stage.state.leaves.index(target) + 1
    if len(other.state.leaves) < count:
        raise ScheduleError(
            f"axis of after on stage {stage.name} must be one of its outermost {len(other.state.leaves)} loops, as "
            f"many as {other.name} has, not {target.name!r}.",
            kind="argument",
        )
    schedule = stage.schedule
    stages = _moved(other, stage, "after")
    if _shares_loops_of(stage, other):  # so far it runs before the other, in its loops
        commit(schedule, {stage: replace(stage.state, attachment=None)}, "after", stages=stages)
    align(stage, other, count)
    leading = with_equal_warmups(stage, other, count)
    attachment = ComputeAt(stage.id, stage.state.leaves[count - 1], other.state.leaves[:count])
    new = replace(leading.get(other, other.state), attachment=attachment, reuse=None)
    commit(schedule, {**leading, other: new}, "after", stages=stages)


def _shares_loops_of(stage: EditedStage, other: EditedStage) -> bool:
    attachment = stage.state.attachment
    return attachment is not None and stage.schedule.at(attachment) is other and bool(attachment.loops)


def check_pair(stage: EditedStage, other: object, command: str) -> None:
    if of_the_same_schedule(stage, other, f"other stage of {command} on stage {stage.name}", "s[B]") is stage:
        raise ScheduleError(
            f"other stage of {command} on stage {stage.name} must be another stage, not {stage.name}.", kind="argument"
        )


def _reads_from(stage: EditedStage, other: EditedStage) -> bool:
    """Whether a stage depends on another, directly or not."""
    schedule = stage.schedule
    seen: set[EditedStage] = set()
    waiting = [stage]
    while waiting:
        current = waiting.pop()
        seen.add(current)
        producers = {schedule.producer(read.tensor) for read in current.state.computation.reads}
        if other in producers:
            return True
        waiting += [producer for producer in producers if producer is not None and producer not in seen]
    return False


def _moved(first: EditedStage, second: EditedStage, command: str) -> list[EditedStage]:
    """The stages with ``first``, and what it depends on, before ``second``."""
    schedule = first.schedule
    if _reads_from(first, second):
        raise ScheduleError(
            f"stage {second.name} must come before {first.name}, which depends on it, not after it ({command}).",
            kind="legality",
        )
    stages = list(schedule.stages)
    if stages.index(first) < stages.index(second):
        return stages
    position = stages.index(second)
    moved = [each for each in stages[position:] if each is first or _reads_from(first, each)]
    return [*stages[:position], *moved, *(each for each in stages[position:] if each not in moved)]


def _order(first: EditedStage, second: EditedStage, command: str) -> None:
    """Run two stages one after the other, without shared loops."""
    schedule = first.schedule
    changes = {}
    for one, two in ((first, second), (second, first)):
        if _shares_loops_of(one, two):
            changes[one] = replace(one.state, attachment=None)
    commit(schedule, changes, command, stages=_moved(first, second, command))


def before(stage: EditedStage, other: EditedStage, axis: "AxisLike | None" = None) -> None:
    """Run this stage before another, in shared loops down to ``axis`` of the other.

    Before::

        for i in 0..60:
          B[i] = A[i] + 1
        for i in 0..60:
          C[i] = B[i] * 2

    After ``s[B].before(s[C], i)``::

        for i in 0..60:
          B[i] = A[i] + 1
          C[i] = B[i] * 2

    The same as ``other.after(stage, axis)``, with the same errors. Tiramisu's before.
    """
    check_pair(stage, other, "before")
    after(other, stage, axis)


def between(
    stage: EditedStage, first: EditedStage, axis: "AxisLike | None", last: EditedStage, last_axis: "AxisLike | None"
) -> None:
    """Run this stage after ``first``, sharing loops down to ``axis``, and before ``last``, down to its ``last_axis``.

    Before::

        for i in 0..60:
          B[i] = A[i] + 1
        for i in 0..60:
          C[i] = B[i] * 2
        for i in 0..60:
          D[i] = C[i] + B[i]

    After ``s[C].between(s[B], "i", s[D], "i")``::

        for i in 0..60:
          B[i] = A[i] + 1
          C[i] = B[i] * 2
          D[i] = C[i] + B[i]

    Errors as for ``after``; on an error nothing is changed. Tiramisu's between.
    """
    before(stage, last, last_axis)
    after(stage, first, axis)


def then(stage: EditedStage, other: EditedStage, axis: "AxisLike | None" = None) -> EditedStage:
    """Run another stage after this one, in shared loops down to ``axis`` of the other.

    Before::

        for i in 0..60:
          B[i] = A[i] + 1
        for i in 0..60:
          C[i] = B[i] * 2

    After ``s[B].then(s[C], i)``::

        for i in 0..60:
          B[i] = A[i] + 1
          C[i] = B[i] * 2

    Returns the other stage, so that calls can be chained: ``s[A].then(s[B], i).then(s[C], j)``. Errors as for
    ``after``. Tiramisu's then.
    """
    before(stage, other, axis)
    return other
