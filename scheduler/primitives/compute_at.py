"""``compute_at``: a stage moves into a loop of its consumer."""

from dataclasses import replace
from typing import cast

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.primitives.resolve_location import is_root, of_the_same_schedule
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike
from lathe.scheduler.schedule_ir.stage import ComputeAt, Region


def compute_at(stage: EditedStage, consumer: EditedStage, axis: "AxisLike | None" = None, region: str = "box") -> None:
    """Compute, in each iteration of a consumer's loop, the part of this stage that the iteration reads.

    The part is the smallest box of this stage's domain that holds every cell read there. Before::

        for i in 0..60:
          B[i] = A[i] + 1
        for io in 0..4:
          for ii in 0..16:
            C[16*io + ii] = B[16*io + ii] * 2 while 16*io + ii < 60

    After ``s[B].compute_at(s[C], io)``::

        for io in 0..4:
          for i in 0..16:
            B[16*io + i] = A[16*io + i] + 1 while i < 16 and 16*io + i < 60
          for ii in 0..16:
            C[16*io + ii] = B[16*io + ii] * 2 while 16*io + ii < 60

    With ``region="exact"`` it is only the cells that are read, where these leave gaps; with ``"missing"`` only those of
    them that no earlier iteration has made, so that nothing is computed again: the values must stay, in DRAM.
    Without an axis, or with ``"root"``, it is computed whole before the loops of its consumers: ``compute_root``.
    Raises LegalityError, with a witness, if a stage outside the loop reads this one: it would find the values gone
    or not yet made. Raises ScheduleError if ``axis`` is not a loop of ``consumer``, if the consumer is computed inside
    this stage, if this stage is an output, or if the loop belongs to an ``emit_insn`` nest.
    """
    if of_the_same_schedule(stage, consumer, f"consumer of compute_at of stage {stage.name}", "s[C]") is stage:
        raise ScheduleError(
            f"consumer of compute_at of stage {stage.name} must be a stage that reads its values, not {stage.name!r} "
            "itself.",
            kind="argument",
        )
    if axis is None or is_root(axis):
        compute_root(stage)
        return
    if not isinstance(region, str) or region not in ("box", "exact", "missing"):
        raise ScheduleError(
            f"region of compute_at of stage {stage.name} must be 'box', 'exact' or 'missing', not {region!r}.",
            kind="argument",
        )
    target = consumer.find(axis, "compute_at")
    above: EditedStage | None = consumer
    while above is not None:
        if above is stage:
            raise ScheduleError(
                f"consumer of compute_at of stage {stage.name} must be a stage outside its own loops, not "
                f"{consumer.name!r}, which is computed inside {stage.name}.",
                kind="legality",
            )
        above = stage.schedule.at(above.state.attachment) if above.state.attachment else None
    attachment = ComputeAt(consumer.id, target, region=cast(Region, region))
    new = replace(stage.state, attachment=attachment, reuse=None)
    commit(stage.schedule, {stage: new}, "compute_at")


def compute_root(stage: EditedStage) -> None:
    """Compute this stage whole, before the loops of its consumers: undoes ``compute_at`` and ``reuse_at``."""
    new = replace(stage.state, attachment=None, reuse=None)
    commit(stage.schedule, {stage: new}, "compute_root")
