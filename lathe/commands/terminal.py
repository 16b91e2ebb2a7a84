"""Output of commands: tables on standard output, notes on standard error, or one JSON object."""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import click
from rich.console import Console
from rich.table import Table

WIDTH_OF_FILES = 120  # for pipes and files, which have no width; 80 columns would wrap the tables


def console(width_of_files: int = WIDTH_OF_FILES) -> Console:
    """The console for results, on standard output."""
    terminal = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if terminal else width_of_files, highlight=False)


def notes() -> Console:
    """The console for progress and remarks, on standard error, so that results can be piped."""
    return Console(stderr=True, highlight=False)


def print_json(value: Mapping[str, Any] | list[Any]) -> None:
    """Print one JSON value on standard output."""
    click.echo(json.dumps(value, indent=2))


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]], *, left: int = 1) -> Table:
    """A table whose first `left` columns are left-aligned, and whose other columns are right-aligned."""
    names = list(columns)
    result = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    result.show_header = any(names)
    for number, column in enumerate(names):
        result.add_column(column, justify="left" if number < left else "right")
    for row in rows:
        result.add_row(*(str(cell) for cell in row))
    return result


def grouped(number: int) -> str:
    """An integer with spaces between thousands: 12 345 678."""
    return f"{number:,}".replace(",", " ")


def percent(share: float) -> str:
    """A fraction in percent with one decimal."""
    return f"{100 * share:.1f} %"
