"""Select instructions: record each stage's emission rule, named by ``emit_insn`` or else matched to its statement."""

from lathe.scheduler.isel.select_rule import rule_of
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.target.target import Target


def select_instructions(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - one signature for all passes
    """Record the emission rule of every stage, in place."""
    for stage in schedule.stages:
        stage.change(rule=rule_of(stage))
