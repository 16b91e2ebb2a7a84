"""``emit_insn``: an emission rule takes a loop nest."""

from dataclasses import replace

from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.isel.rules.rule import check_rule
from lathe.scheduler.primitives.transaction import commit
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import AxisLike


def emit_insn(stage: EditedStage, axis: "AxisLike", rule: str) -> None:
    """Let the named emission rule take this loop and all inside it, chunk by chunk.

    Body and tails of partitioned loops keep the pragma, so each chunk has constant extents and no condition. Before::

        for io in 0..3:
          for ii in 0..16:
            C[16*io + ii] = A[16*io + ii] + 1
        for io in 3..4:
          for ii in 0..12:
            C[16*io + ii] = A[16*io + ii] + 1

    After ``s[C].emit_insn(ii, "alu")``::

        for io in 0..3:
          alu(ii in 0..16): C[16*io + ii] = A[16*io + ii] + 1
        for io in 3..4:
          alu(ii in 0..12): C[16*io + ii] = A[16*io + ii] + 1

    Raises ScheduleError if no rule has that name, the axis is not a present loop of this stage, or another stage is
    computed at a loop inside. Pragma and callback are after TVM's discussion of loop partitioning.
    """
    target = stage.find(axis, "emit_insn")
    if not isinstance(rule, str) or not rule:
        raise ScheduleError(
            f"rule of emit_insn on stage {stage.name} must be the name of a rule, not {rule!r}.", kind="argument"
        )
    check_rule(rule, f"emit_insn on stage {stage.name}")
    commit(stage.schedule, {stage: replace(stage.state, pragma=rule, pragma_axis=target)}, "emit_insn")
