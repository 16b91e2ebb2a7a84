"""``compute_at``: a stage is computed in a loop of a consumer."""

from dataclasses import replace
from typing import cast

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.primitives.resolve_location import is_root, of_the_same_schedule
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike
from lathe.scheduler.schedule_ir.stage import ComputeAt, Region


def compute_at(stage: EditedStage, consumer: EditedStage, axis: "AxisLike | None" = None, region: str = "box") -> None:
    """Compute, in each iteration of a consumer's loop, the region of this stage that the iteration reads.

    The region is the smallest box of this stage's domain that contains every cell read. Before::

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

    ``region="exact"`` computes only the cells that are read, if these leave gaps; ``region="missing"`` only those of
    them that no earlier iteration has computed, which requires that values persist, in DRAM. Without an axis, or with
    ``"root"``, the stage is computed whole before the loops of its consumers: ``compute_root``. Raises LegalityError,
    with a witness, if a stage outside the loop reads this one and would find values freed or not computed yet;
    ScheduleError if ``axis`` is not a loop of ``consumer``, the consumer is computed inside this stage, this stage is
    an output, or the loop is in an ``emit_insn`` nest.
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
    enclosing: EditedStage | None = consumer
    while enclosing is not None:
        if enclosing is stage:
            raise ScheduleError(
                f"consumer of compute_at of stage {stage.name} must be outside the loops of {stage.name}, not "
                f"{consumer.name!r}, which is computed inside them.",
                kind="legality",
            )
        enclosing = stage.schedule.at(enclosing.state.attachment) if enclosing.state.attachment else None
    attachment = ComputeAt(consumer.id, target, region=cast(Region, region))
    new = replace(stage.state, attachment=attachment, reuse=None)
    commit(stage.schedule, {stage: new}, "compute_at")


def compute_root(stage: EditedStage) -> None:
    """Compute this stage whole, before the loops of its consumers: undoes ``compute_at`` and ``reuse_at``."""
    new = replace(stage.state, attachment=None, reuse=None)
    commit(stage.schedule, {stage: new}, "compute_root")
