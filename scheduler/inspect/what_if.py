"""How a program's cycles compare with its bound, with other schedules, and with the same machine given more."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Alternative:
    """A schedule or a machine that was tried: its cycles, None where it does not fit, or is no legal machine.

    ``reason`` says why there are no cycles, in a few words.
    """

    what: str
    cycles: int | None
    reason: str = ""

    def compared(self, cycles: int) -> str:
        """The cycles beside others, as text."""
        if self.cycles is None:
            return f"not possible: {self.reason}" if self.reason else "not possible"
        return f"{self.cycles:,} cycles ({self.cycles / cycles - 1:+.1%})"


@dataclass(frozen=True)
class WhatIfReport:
    """``winner`` takes ``cycles``, of which ``bound`` is the least that any schedule takes.

    ``limit``: what bounds the program: the work of the matrix core or the ALU, or what the machine would need more of.
    ``busy``: which part of the cycles the compute unit spends on what. ``candidates`` are schedules, the quickest
    first, ``more`` machines that have more of one resource.
    """

    winner: str
    cycles: int
    bound: int
    limit: str
    busy: tuple[tuple[str, float], ...]
    candidates: tuple[Alternative, ...]
    more: tuple[Alternative, ...]

    def lines(self) -> Iterator[str]:
        """The text."""
        yield f"schedule: {self.winner}, {self.cycles:,} cycles, of which the bound is {self.bound / self.cycles:.1%}"
        shares = ", ".join(f"{what} {share:.1%}" for what, share in self.busy)
        yield f"bound by {self.limit}; of the cycles {shares}"
        for each in self.candidates:
            yield f"  or {each.what}: {each.compared(self.cycles)}"
        for each in self.more:
            yield f"  with {each.what}: {each.compared(self.cycles)}"
