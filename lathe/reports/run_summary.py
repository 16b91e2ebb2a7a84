"""The totals of a run, for the summaries of pages."""

from collections.abc import Callable
from dataclasses import dataclass

from lathe.reports.run_model import Run


def grouped(number: int) -> str:
    """An integer with narrow spaces between thousands."""
    return f"{number:,}".replace(",", "\u202f")


def percent(share: float) -> str:
    """A fraction in percent with one decimal."""
    return f"{100 * share:.1f}\u202f%"


@dataclass(frozen=True)
class Total:
    """A total of a run: its name, its value, and its format. Shares are fractions of 1."""

    name: str
    value: float
    written: Callable[..., str] = grouped

    @property
    def text(self) -> str:
        """The formatted value."""
        return self.written(self.value)


def totals(run: Run) -> list[Total]:
    """The totals of a run, cycles first; only cycles if it has no launches. Unknown efficiency is left out."""
    found = [Total("cycles", run.cycles)]
    if not run.streams:
        return found
    counters = run.counters
    found += [
        Total("instructions", run.instructions),
        Total("GEMM operations", counters.gemm_operations),
        Total("utilisation (GEMM operations / cycles)", counters.utilisation, percent),
        Total("ALU operations", counters.alu_operations),
        Total("bytes read", sum(counters.bytes_read.values())),
        Total("bytes written", sum(counters.bytes_written.values())),
    ]
    products = [each.result.program.products for each in run.streams]
    known = [each for each in products if each is not None]
    if len(known) == len(products):
        share = sum(known) / (run.cycles * run.config.multipliers)
        found.append(Total("efficiency (MACs / peak MACs)", share, percent))
    return found
