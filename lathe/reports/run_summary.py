"""What a whole run took: the numbers that stand in a summary, one run alone or two beside each other."""

from collections.abc import Callable
from dataclasses import dataclass

from lathe.reports.run_model import Run


def grouped(number: int) -> str:
    """A whole number with narrow spaces between thousands."""
    return f"{number:,}".replace(",", "\u202f")


def percent(share: float) -> str:
    """A share in percent with one digit."""
    return f"{100 * share:.1f}\u202f%"


@dataclass(frozen=True)
class Total:
    """A number of a run: its name, its value, and how it is written. Shares are fractions of 1."""

    name: str
    value: float
    written: Callable[..., str] = grouped

    @property
    def text(self) -> str:
        """The value as it stands on a page."""
        return self.written(self.value)


def totals(run: Run) -> list[Total]:
    """The numbers of a run, cycles first; of a run without launches only these. Efficiency is left out if not known."""
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
        found.append(Total("efficiency (products / multipliers' most)", share, percent))
    return found
