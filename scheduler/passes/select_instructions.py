"""Which rule makes instructions of each stage: the one that it names, or else the one that takes its statement."""

from lathe.scheduler.isel.select_rule import rule_of
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.target.target import Target


def select_instructions(schedule: Edit, target: Target) -> None:  # noqa: ARG001 - as all have
    """Note the rule of every stage."""
    for stage in schedule.stages:
        stage.change(rule=rule_of(stage))
