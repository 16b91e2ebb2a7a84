"""The page of a run: a program on its machine."""

from lathe.reports.page import Page, facts, section
from lathe.sim import Result


def run_page(name: str, result: Result) -> Page:
    """The page of a result, which must have a trace."""
    summary = section("Summary", facts([("cycles", result.cycles)]), id_="summary")
    return Page(name, f"on {result.program.config.name}", [summary])
