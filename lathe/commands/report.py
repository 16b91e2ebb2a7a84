"""`lathe report`: a run, a network, a schedule or a sweep as one page to look at."""

from pathlib import Path

import click

from lathe.commands.options import FILE
from lathe.configs.atomic import check_writable
from lathe.isa import Program
from lathe.networks.dispatch import simulate
from lathe.reports.errors import ReportError
from lathe.reports.launches import run_of_results
from lathe.reports.page import Page
from lathe.reports.run_page import run_page
from lathe.reports.sweep_page import sweep_page

SQLITE = b"SQLite format 3\0"
ZIP = b"PK"


@click.command()
@click.argument("subject", metavar="RESULT|PROGRAM|RESULTS.db", type=FILE)
@click.option("-o", "--output", type=FILE, required=True, help="The .html file to write.")
def report(subject: Path, output: Path) -> None:
    """Write a page to look at: one file of HTML, which needs no network (extra `reports`)."""
    check_writable(output)
    page_of(subject).write(output)


def page_of(subject: Path) -> Page:
    """The page of a file, by what the file is."""
    try:
        with subject.open("rb") as file:
            begins = file.read(len(SQLITE))
    except OSError as error:
        raise ReportError(
            f"The file {str(subject)!r} must be one that can be read, and is not: {error.strerror}. Correct the path."
        ) from None
    if begins == SQLITE:
        return sweep_page(subject)
    if begins.startswith(ZIP):
        return run_page(run_of_results(subject.name, [simulate(Program.load(subject), timing_only=True)]))
    raise ReportError(
        f"The file {str(subject)!r} must be a program, a network, a model, a script or the store of a sweep, and is "
        "none of these. Correct the path."
    )
