"""``after``, ``before``, ``then`` and ``between``: the order of stages, at the root or in the same loops."""

from dataclasses import replace
from typing import TYPE_CHECKING

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.state import Attachment

if TYPE_CHECKING:
    from lathe.scheduler.stage import AxisLike, Stage


def after(stage: "Stage", other: "Stage", axis: "AxisLike | None" = None) -> None:
    """Run this stage after another, in the same loops down to ``axis`` of this stage.

    The outermost loops of the two become one, iteration by iteration; in each, the other stage comes first. Before::

        for i in 0..60:
          B[i] = A[i] + 1
        for i in 0..60:
          C[i] = B[i] * 2

    After ``s[C].after(s[B], i)``::

        for i in 0..60:
          B[i] = A[i] + 1
          C[i] = B[i] * 2

    Without an axis, or with ``"root"``, the whole of this stage comes after the whole of the other. Raises
    LegalityError, with a witness, if a value would be read before it is made (``shift`` this stage, or ask
    ``s.smallest_shift``); ScheduleError if a stage is of another schedule, the other reads this one, or the loops
    cannot be run together. Tiramisu's after.
    """
    _check_pair(stage, other, "after")
    if axis is None or axis == "root":
        _order(other, stage, "after")
        return
    target = stage.find(axis, "after")
    count = stage.state.leaves.index(target) + 1
    if len(other.state.leaves) < count:
        raise ScheduleError(
            f"axis of after on stage {stage.name} must be one of its outermost {len(other.state.leaves)} loops, as "
            f"many as {other.name} has, not {target.name!r}."
        )
    schedule = stage.schedule
    stages = _moved(other, stage, "after")
    attachment = Attachment(stage, target, other.state.leaves[:count])
    schedule.commit({other: replace(other.state, attachment=attachment)}, "after", stages=stages)


def before(stage: "Stage", other: "Stage", axis: "AxisLike | None" = None) -> None:
    """Run this stage before another, in the same loops down to ``axis`` of the other.

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
    _check_pair(stage, other, "before")
    after(other, stage, axis)


def then(stage: "Stage", other: "Stage", axis: "AxisLike | None" = None) -> "Stage":
    """Run another stage after this one, in the same loops down to ``axis`` of the other.

    Before::

        for i in 0..60:
          B[i] = A[i] + 1
        for i in 0..60:
          C[i] = B[i] * 2

    After ``s[B].then(s[C], i)``::

        for i in 0..60:
          B[i] = A[i] + 1
          C[i] = B[i] * 2

    Returns the other stage, so that a whole order is one line: ``s[A].then(s[B], i).then(s[C], j)``. Errors as
    ``after``. Tiramisu's then.
    """
    before(stage, other, axis)
    return other


def between(
    stage: "Stage", first: "Stage", axis: "AxisLike | None", last: "Stage", last_axis: "AxisLike | None"
) -> None:
    """Run this stage after ``first``, sharing loops down to ``axis`` of its own, and before ``last``, down to its axis.

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

    Errors as ``after``; either both orders hold afterwards or nothing has changed. Tiramisu's between.
    """
    schedule = stage.schedule
    states, stages = {each: each.state for each in schedule.stages}, schedule.stages
    try:
        before(stage, last, last_axis)
        after(stage, first, axis)
    except Exception:
        schedule.stages = stages
        for each, state in states.items():
            each.state = state
        raise


def _check_pair(stage: "Stage", other: object, command: str) -> None:
    from lathe.scheduler.stage import Stage

    if not isinstance(other, Stage):
        raise ScheduleError(
            f"other stage of {command} on stage {stage.name} must be a stage, as s[B] is, not {other!r}."
        )
    if other.schedule is not stage.schedule:
        raise ScheduleError(
            f"other stage of {command} on stage {stage.name} must be a stage of the same schedule, not {other.name!r} "
            "of another."
        )
    if other is stage:
        raise ScheduleError(f"other stage of {command} on stage {stage.name} must be another one, not itself.")


def _reads_from(stage: "Stage", other: "Stage") -> bool:
    """Whether a stage reads another, by way of others or not."""
    schedule = stage.schedule
    for read in stage.state.computation.reads:
        maker = schedule.maker(read.tensor)
        if maker is not None and (maker is other or _reads_from(maker, other)):
            return True
    return False


def _moved(first: "Stage", second: "Stage", command: str) -> "list[Stage]":
    """The stages with ``first``, and what it reads, before ``second``."""
    schedule = first.schedule
    if _reads_from(first, second):
        raise ScheduleError(
            f"stage {second.name} must come before {first.name}, which reads it, not after it ({command})."
        )
    stages = list(schedule.stages)
    if stages.index(first) < stages.index(second):
        return stages
    place = stages.index(second)
    moved = [each for each in stages[place:] if each is first or _reads_from(first, each)]
    return [*stages[:place], *moved, *(each for each in stages[place:] if each not in moved)]


def _order(first: "Stage", second: "Stage", command: str) -> None:
    """Both whole, one after the other: undoes a place that they share."""
    schedule = first.schedule
    changes = {}
    for one, two in ((first, second), (second, first)):
        attachment = one.state.attachment
        if attachment is not None and attachment.stage is two and attachment.loops:
            changes[one] = replace(one.state, attachment=None)
    schedule.commit(changes, command, stages=_moved(first, second, command))
