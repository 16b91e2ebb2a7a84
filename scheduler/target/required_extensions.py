"""The check, before lowering, that a machine has the ISA extensions that the stages of a program require."""

from dataclasses import replace

from lathe.configs import HardwareConfig
from lathe.scheduler.errors import BuildError
from lathe.scheduler.isel.rules import BUILT_IN
from lathe.scheduler.isel.select_rule import has_user_rule, rule_for
from lathe.scheduler.isel.statement import statement_of
from lathe.scheduler.layout.rescaling import listed_extensions, missing_extensions_of
from lathe.scheduler.schedule_ir.memories import ACC
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView


def check_extensions(schedule: ScheduleView, config: HardwareConfig) -> None:
    """Raises BuildError if stages need extensions that the machine lacks; it names all of them.

    Stages that a user-defined rule takes are not checked.
    """
    missing: dict[str, str] = {}
    stages: dict[str, None] = {}
    for stage in schedule.stages:
        for body in stage.state.computation.bodies:
            required = missing_extensions_of(body, config)
            if not required or has_user_rule(stage.state):
                continue
            if rule_for(replace(statement_of(stage), scope=ACC)) in BUILT_IN:
                stages[stage.name] = None
                for extension, purpose in required.items():
                    missing.setdefault(extension, f"{purpose}, in stage {stage.name}")
    if missing:
        several = len(missing) > 1
        emitted = "the stages by rules" if len(stages) > 1 else "the stage by a rule"
        raise BuildError(
            f"machine of build must have {listed_extensions(missing)}, and {config.name!r} lacks "
            f"{'them' if several else 'it'}. Switch the extension{'s' * several} on in the machine's file, or "
            f"emit {emitted} of your own.",
            kind="machine",
        )
