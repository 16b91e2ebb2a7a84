"""Result of the sensitivity analysis: cycles against the lower bound, other schedules, and machines with more."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Alternative:
    """A schedule or machine that was tried, with its cycles; or None, and the ``reason`` why it is not possible."""

    what: str
    cycles: int | None
    reason: str = ""

    def compared(self, cycles: int) -> str:
        """The cycles as text, relative to others."""
        if self.cycles is None:
            return f"not possible: {self.reason}" if self.reason else "not possible"
        return f"{self.cycles:,} cycles ({self.cycles / cycles - 1:+.1%})"


@dataclass(frozen=True)
class WhatIfReport:
    """The best schedule ``winner`` takes ``cycles``; ``bound`` is the lower bound for any schedule.

    ``limit``: the bottleneck: the work of the matrix core or ALU, or a resource of the machine. ``busy``: the fractions
    of the cycles that the compute unit spends on each kind of work. ``candidates``: schedules, the fastest first;
    ``more``: machines that have more of one resource.
    """

    winner: str
    cycles: int
    bound: int
    limit: str
    busy: tuple[tuple[str, float], ...]
    candidates: tuple[Alternative, ...]
    more: tuple[Alternative, ...]

    def lines(self) -> Iterator[str]:
        """The lines of the report as text."""
        bound = f"{self.bound / self.cycles:.1%}"
        yield f"schedule: {self.winner}, {self.cycles:,} cycles; the lower bound is {bound} of them"
        shares = ", ".join(f"{what} {share:.1%}" for what, share in self.busy)
        yield f"bound by {self.limit}; share of the cycles: {shares}"
        for each in self.candidates:
            yield f"  or {each.what}: {each.compared(self.cycles)}"
        for each in self.more:
            yield f"  with {each.what}: {each.compared(self.cycles)}"
