"""Emission rules: what turns a chunk into instructions. Importing this package registers the built-in ones."""

from lathe.scheduler.isel.rules import alu, dma, gemm, rescale, reset
from lathe.scheduler.isel.rules.rule import RULES, emit_rule

BUILT_IN = frozenset(RULES)
"""The names of the rules that come with Lathe."""
_OF_LATHE = dict(RULES)


def is_own(name: str) -> bool:
    """Whether a rule is one of the user's, which may have taken the name of one of Lathe's."""
    return RULES[name] is not _OF_LATHE.get(name)


__all__ = ["BUILT_IN", "RULES", "alu", "dma", "emit_rule", "gemm", "is_own", "rescale", "reset"]
