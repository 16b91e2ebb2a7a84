"""Which rule takes a statement: the rules themselves say it."""

from lathe.scheduler.isel.rules import BUILT_IN, RULES
from lathe.scheduler.isel.statement import Statement, statement_of
from lathe.scheduler.schedule_ir.schedule import StageView
from lathe.scheduler.schedule_ir.stage import StageState


def rule_for(statement: Statement) -> str:
    """Of the rules that take a statement, the one registered last: new ones come before those that are there."""
    return next(name for name, rule in reversed(RULES.items()) if rule.takes is not None and rule.takes(statement))


def rule_of(stage: StageView) -> str:
    """The rule that a stage names, or else the one that takes its statement."""
    return stage.state.pragma or rule_for(statement_of(stage))


def has_own_rule(state: StageState) -> bool:
    """Whether a rule of the user's takes a stage: it is given conditions as they stand, for it may carry them out."""
    rule = state.rule or state.pragma
    return rule is not None and rule not in BUILT_IN
