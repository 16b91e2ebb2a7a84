"""What stages want of a machine beyond what all machines have, asked before anything is scheduled for it."""

from dataclasses import replace

from lathe.configs import HardwareConfig
from lathe.scheduler.errors import BuildError
from lathe.scheduler.state.memories import NEAR
from lathe.scheduler.state.schedule import ScheduleView
from lathe.scheduler.target.rescaling import told, unmet
from lathe.scheduler.target.rule_choice import has_own_rule, rule_for
from lathe.scheduler.target.rules import BUILT_IN
from lathe.scheduler.target.statement import statement_of


def check_extensions(schedule: ScheduleView, config: HardwareConfig) -> None:
    """Raises BuildError for stages that only extensions compute which the machine has not: all of these at once.

    A stage that a rule of the user's takes may be anything.
    """
    missing: dict[str, str] = {}
    stages: dict[str, None] = {}
    for stage in schedule.stages:
        for body in stage.state.computation.bodies:
            wanted = unmet(body, config)
            if not wanted or has_own_rule(stage.state):
                continue
            if rule_for(replace(statement_of(stage), scope=NEAR)) in BUILT_IN:
                stages[stage.name] = None
                for extension, purpose in wanted.items():
                    missing.setdefault(extension, f"{purpose}, which stage {stage.name} computes")
    if missing:
        several = len(missing) > 1
        emitted = "the stages by rules" if len(stages) > 1 else "the stage by a rule"
        raise BuildError(
            f"machine of build must have {told(missing)}, and {config.name!r} has "
            f"{'none of them' if several else 'not'}. Switch the extension{'s' * several} on in the machine's file, or "
            f"emit {emitted} of your own.",
            kind="machine",
        )
