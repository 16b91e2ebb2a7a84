"""What stages want of a machine beyond what all machines have, asked before anything is scheduled for it."""

from dataclasses import replace

from lathe.configs import HardwareConfig
from lathe.scheduler.errors import BuildError
from lathe.scheduler.state.memories import NEAR
from lathe.scheduler.state.schedule import ScheduleView
from lathe.scheduler.target.rescaling import unmet
from lathe.scheduler.target.rule_choice import has_own_rule, rule_for
from lathe.scheduler.target.rules import BUILT_IN
from lathe.scheduler.target.statement import statement_of


def check_extensions(schedule: ScheduleView, config: HardwareConfig) -> None:
    """Raises BuildError for a stage that only an extension computes which the machine has not.

    A stage that a rule of the user's takes may be anything.
    """
    for stage in schedule.stages:
        for body in stage.state.computation.bodies:
            missing = unmet(body, config)
            if missing is None or has_own_rule(stage.state):
                continue
            if rule_for(replace(statement_of(stage), scope=NEAR)) in BUILT_IN:
                raise BuildError(
                    f"machine of build must have {missing}, which stage {stage.name} computes, and {config.name!r} has "
                    "not. Switch the extension on in the machine's file, or emit the stage by a rule of your own.",
                    kind="machine",
                )
