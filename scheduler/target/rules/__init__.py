"""Emission rules: what turns a chunk into instructions. Importing this package registers the built-in ones."""

from lathe.scheduler.target.rules import alu, dma, gemm, rescale, reset
from lathe.scheduler.target.rules.rule import RULES, emit_rule

BUILT_IN = frozenset(RULES)
"""The names of the rules that come with Lathe."""

__all__ = ["BUILT_IN", "RULES", "alu", "dma", "emit_rule", "gemm", "rescale", "reset"]
