"""Rule selection: which emission rule takes a statement, by the predicates that rules register (``takes``)."""

from lathe.scheduler.isel.rules import BUILT_IN, RULES
from lathe.scheduler.isel.statement import Statement, statement_of
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import StageState


def rule_for(statement: Statement) -> str:
    """The rule registered last of those that take a statement."""
    return next(name for name, rule in reversed(RULES.items()) if rule.takes is not None and rule.takes(statement))


def rule_of(stage: StageView) -> str:
    """The rule that ``emit_insn`` names for a stage, or else the one that takes its statement."""
    return stage.state.pragma or rule_for(statement_of(stage))


def has_user_rule(state: StageState) -> bool:
    """Whether a user-defined rule takes a stage; it receives conditions unresolved, since it may implement them."""
    rule = state.rule or state.pragma
    return rule is not None and rule not in BUILT_IN
