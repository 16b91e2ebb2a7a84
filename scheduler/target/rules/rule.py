"""The registry of emission rules: what ``emit_insn`` names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from lathe.isa import Instruction
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.target.chunk import Chunk, RuleMismatch

Emission = Sequence[Instruction] | RuleMismatch


class Rule(Protocol):
    """Turns a chunk into instructions, or says which constraint it does not satisfy."""

    def __call__(self, chunk: Chunk) -> Emission: ...


@dataclass(frozen=True)
class RuleRow:
    """Where a rule that computes finds its operands, memory by memory, and leaves its result; empty for others."""

    reads: tuple[str, ...] = ()
    writes: str = ""


RULES: dict[str, Rule] = {}
ROWS: dict[str, RuleRow] = {}
"""What of the rules their functions do not say, by name."""
SEPARATE_INIT: set[str] = set()
"""The rules that want the two parts of a reduction, "init" and "update", as chunks of their own."""
BY_ADDRESS: set[str] = set()
"""The rules that see of the loops outside a chunk only where its operands lie, and what its conditions say."""


def emit_rule(
    name: str, *, separate_init: bool = False, by_address: bool = False, reads: tuple[str, ...] = (), writes: str = ""
) -> Callable[[Rule], Rule]:
    """Register a function as the emission rule ``name``, for ``s[C].emit_insn(axis, name)``.

    The function receives a ``Chunk`` (constant extents, no conditions, linear indices) and returns the instructions
    that compute it, or returns or raises ``RuleMismatch(constraint)`` if the chunk does not satisfy a constraint.
    Tokens are none of its business: they are derived afterwards. A second registration replaces the first. A rule that
    computes says with ``reads`` in which memories its operands are, in order, and with ``writes`` where its result is.

    A reduction whose loops are all inside the chunk comes as one chunk of role "reduce", which also sets the start
    value; with ``separate_init`` it comes as two, of roles "init" and "update". If reduction loops are outside, the
    chunks have role "update", and rule "reset" sets the start value before.

    With ``by_address`` the rule promises to look at nothing that differs between iterations of the loops outside but
    where operands lie and what conditions say. It is then asked once for chunks that are alike in that.

        >>> @emit_rule("vexp")
        ... def vexp(chunk):
        ...     return RuleMismatch("no machine has an exponential")
    """

    def register(rule: Rule) -> Rule:
        RULES[name] = rule
        ROWS[name] = RuleRow(reads, writes)
        for names, wanted in ((SEPARATE_INIT, separate_init), (BY_ADDRESS, by_address)):
            if wanted:
                names.add(name)
            else:
                names.discard(name)
        return rule

    return register


def check_rule(name: str, where: str) -> None:
    """Raises ScheduleError if no rule has the name."""
    if name in RULES:
        return
    near = get_close_matches(name, RULES, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise ScheduleError(
        f"rule of {where} must be one of {', '.join(sorted(RULES))}, not {name!r}. {hint}Register a rule of your own "
        "with @lathe.emit_rule(name).",
        kind="argument",
    )
