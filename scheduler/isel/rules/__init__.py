"""Emission rules, which turn chunks into instructions. Importing this package registers the built-in ones."""

from lathe.scheduler.isel.rules import alu, dma, gemm, rescale, reset
from lathe.scheduler.isel.rules.rule import RULES, emit_rule

BUILT_IN = frozenset(RULES)
"""The names of the built-in rules."""
_BUILT_IN_RULES = dict(RULES)


def is_user_rule(name: str) -> bool:
    """Whether a rule is user-defined; it may have replaced a built-in one of the same name."""
    return RULES[name] is not _BUILT_IN_RULES.get(name)


__all__ = ["BUILT_IN", "RULES", "alu", "dma", "emit_rule", "gemm", "is_user_rule", "rescale", "reset"]
