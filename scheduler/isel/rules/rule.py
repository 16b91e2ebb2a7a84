"""The registry of emission rules: what ``emit_insn`` names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from lathe.frontend.expr.errors import shown
from lathe.isa import Instruction
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.isel.chunk import Chunk
from lathe.scheduler.isel.match_failures import RuleMismatch
from lathe.scheduler.isel.statement import Statement

Emission = Sequence[Instruction] | RuleMismatch
Emit = Callable[[Chunk], Emission]
"""Turns a chunk into instructions, or says which constraint it does not satisfy."""


@dataclass(frozen=True)
class Rule:
    """A rule, and what its function does not say; see ``emit_rule``."""

    emit: Emit
    takes: Callable[[Statement], bool] | None = None
    reads: tuple[str, ...] = ()
    writes: str = ""
    separate_init: bool = False
    by_address: bool = False
    in_place: bool = False
    looks_up: bool = False

    def __call__(self, chunk: Chunk) -> Emission:
        """The instructions of a chunk, or the constraint that it does not satisfy."""
        if self.writes and chunk.write.scope != self.writes:
            return RuleMismatch(
                f"result {chunk.write.tensor.name} must be in {self.writes}, not in {chunk.write.scope}", kind="machine"
            )
        return self.emit(chunk)


RULES: dict[str, Rule] = {}


def emit_rule(
    name: str,
    *,
    takes: Callable[[Statement], bool] | None = None,
    reads: tuple[str, ...] = (),
    writes: str = "",
    separate_init: bool = False,
    by_address: bool = False,
    in_place: bool = False,
    looks_up: bool = False,
) -> Callable[[Emit], Emit]:
    """Register a function as the emission rule ``name``, for ``s[C].emit_insn(axis, name)``.

    The function receives a ``Chunk`` (constant extents, no conditions, linear indices) and returns the instructions
    that compute it, or returns or raises ``RuleMismatch(constraint)`` if the chunk does not satisfy a constraint.
    Tokens are none of its business: they are derived afterwards. A second registration replaces the first; unless it
    says what it takes, it takes the same.

    ``takes`` says of a ``Statement`` whether the rule takes it where no stage names a rule. The rule registered last is
    asked first. Without it, a rule is taken only where ``emit_insn`` names it.

    A rule that computes says with ``reads`` in which memories its operands are, in order: what it reads is loaded
    there. ``writes`` says where its result is; it is not asked about others. With ``in_place`` it computes in the
    cells of an operand that nothing reads again, ``chunk.aliased``, if there is one.

    A reduction whose loops are all inside the chunk comes as one chunk of role "reduce", which also sets the start
    value; with ``separate_init`` it comes as two, of roles "init" and "update". If reduction loops are outside, the
    chunks have role "update", and rule "reset" sets the start value before.

    With ``looks_up`` it takes reads of tables of 256 values at places that depend on data: their first index is 0,
    that of the first row. Chunks with such reads are refused before other rules are asked.

    With ``by_address`` the rule promises to look at nothing that differs between iterations of the loops outside but
    where operands lie and what conditions say. It is then asked once for chunks that are alike in that. Raises
    ScheduleError if ``takes`` is no function.

        >>> @emit_rule("vexp")
        ... def vexp(chunk):
        ...     return RuleMismatch("no machine has an exponential")
    """
    if takes is not None and not callable(takes):
        raise ScheduleError(
            f"takes of rule {name!r} must be a function of a Statement, not {shown(takes)}. Leave it out for a rule "
            "that is taken where emit_insn names it.",
            kind="argument",
        )

    def register(emit: Emit) -> Emit:
        before = RULES.get(name)
        taken = before.takes if takes is None and before is not None else takes
        RULES[name] = Rule(emit, taken, reads, writes, separate_init, by_address, in_place, looks_up)
        return emit

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
