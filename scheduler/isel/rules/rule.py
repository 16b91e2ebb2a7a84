"""The registry of emission rules: what ``emit_insn`` names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from lathe.frontend.expr.errors import shown
from lathe.isa import Instruction
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.isel.chunk import Chunk, LaneRange, Operand, VectorView
from lathe.scheduler.isel.match_failures import RuleMismatch
from lathe.scheduler.isel.statement import Statement

Emission = Sequence[Instruction] | RuleMismatch
Emit = Callable[[Chunk], Emission]
"""Emits a chunk as instructions, or gives the constraint that it violates."""


@dataclass(frozen=True)
class Rule:
    """An emission rule with its registered properties; see ``emit_rule``."""

    emit: Emit
    takes: Callable[[Statement], bool] | None = None
    reads: tuple[str, ...] = ()
    writes: str = ""
    separate_init: bool = False
    by_address: bool = False
    in_place: bool = False
    looks_up: bool = False

    def __call__(self, chunk: Chunk) -> Emission:
        """The instructions of a chunk, or the constraint that it violates."""
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
    that compute it, or returns or raises ``RuleMismatch(constraint)`` if the chunk violates a constraint. It does not
    set dependence tokens, which are inserted afterwards. A second registration under a name replaces the first, and
    inherits its ``takes`` unless it gives one.

    ``takes`` decides for a ``Statement`` whether the rule is selected for it; of several rules the one registered last
    is. Without ``takes``, a rule is used only where ``emit_insn`` names it.

    ``reads``: of a rule that computes, the memories of its operands, in order; operands are loaded there. ``writes``:
    the memory of its result; chunks with another one do not reach the function. ``in_place``: it can overwrite an
    operand that has no other use (``chunk.aliased``).

    A reduction whose loops are all inside the chunk is passed as one chunk of role "reduce", which includes the
    initialisation; with ``separate_init`` as two, of roles "init" and "update". If reduction loops are outside of the
    chunk, it has role "update", and rule "reset" initialises it before.

    ``looks_up``: it supports data-dependent indices into tables of 256 values (in the chunk, their first index is 0).
    Other rules never receive chunks with such reads.

    ``by_address``: the rule depends on the iteration of outer loops only through addresses of operands and through
    conditions, so that its result is reused for chunks that are equal in these. Raises ScheduleError if ``takes`` is no
    function.

        >>> @emit_rule("vexp")
        ... def vexp(chunk):
        ...     return RuleMismatch("no machine has an exponential")
    """
    if takes is not None and not callable(takes):
        raise ScheduleError(
            f"takes of rule {name!r} must be a function of a Statement, not {shown(takes)}. Leave it out for a rule "
            "that is selected by emit_insn only.",
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
    similar = get_close_matches(name, RULES, n=1)
    hint = f"Did you mean {similar[0]!r}? " if similar else ""
    raise ScheduleError(
        f"rule of {where} must be one of {', '.join(sorted(RULES))}, not {name!r}. {hint}Register a rule of your own "
        "with @lathe.emit_rule(name).",
        kind="argument",
    )


def lanes(covered: LaneRange, view: VectorView) -> str:
    """The lanes covered, and the loops along them: ``0..15 along i``."""
    if covered.broadcast:
        return "a broadcast value"
    along = " and ".join(view.names[loop] for loop, _ in covered.loops)
    return f"{covered.first}..{covered.first + covered.count - 1}" + (f" along {along}" if along else "")


def conditions(operand: Operand) -> str:
    """The conditions under which an operand is read, joined by "and"."""
    return " and ".join(str(each) if holds else f"not ({each})" for each, holds in operand.guards)
