"""`lathe sweep`: every machine of a grid with every workload of a grid."""

import inspect
import sys
from collections import Counter
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from lathe.commands.options import FILE, json_option
from lathe.commands.terminal import console, grouped, notes, percent, print_json, table
from lathe.configs.atomic import check_writable
from lathe.sweeps.execution import run_sweep, values_of, write_csv
from lathe.sweeps.measurement import DIFFERENT, FAILED, OK, Row
from lathe.sweeps.reading import read_sweep
from lathe.sweeps.specification import Sweep
from lathe.sweeps.workloads import WORKLOADS, known_workloads, make

SOMETHING_WRONG = 1
WIDTH = 200  # of the table when it does not go to a terminal; it has a column for each key that varies


def show_workloads(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    """Print the workloads and leave."""
    if not wanted or ctx.resilient_parsing:
        return
    for name, function in WORKLOADS.items():
        parameters = ", ".join(
            parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default}"
            for parameter in inspect.signature(function).parameters.values()
        )
        click.echo(f"{name}({parameters})\n    {inspect.getdoc(function)}")
    ctx.exit()


@click.command()
@click.argument("sweep_file", metavar="SWEEP", type=FILE)
@click.option("-o", "--output", type=FILE, help="The CSV file to write.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes.  [default: one for each core]")
@click.option("--check", is_flag=True, help="Also compare every output with NumPy, on random inputs.")
@click.option(
    "--workloads", is_flag=True, is_eager=True, expose_value=False, callback=show_workloads,
    help="List the workloads with their parameters, and exit.",
)  # fmt: skip
@json_option
@click.pass_context
def sweep(
    ctx: click.Context, sweep_file: Path, output: Path | None, jobs: int | None, check: bool, as_json: bool
) -> None:
    """Measure workloads on a grid of machines.

    SWEEP is a YAML file. "base" names the machine or machines to begin with, "machine" the parameters to change, each
    with a value or a list of values, and "workloads" lists operators with their shapes. Every combination is built and
    simulated, and becomes a row of the CSV file with its cycles, utilisation, efficiency and bytes. Machines that
    cannot exist, shapes that do not fit each other, and workloads that do not map are rows with the reason. What no row
    could be right with is a mistake in the file, and nothing runs.

    Two examples come with Lathe, and SWEEP may be their names: matmul_blocks and conv_buffers; they lie in
    configs/sweeps. The exit status is 1 when outputs differ from NumPy's, or when Lathe itself failed on a row.
    """
    found = read_sweep(sweep_file, known_workloads(), make)
    if output is not None:
        check_writable(output)
    rows = measured_rows(found, jobs, check)
    if output is not None:
        write_csv(found, rows, output)
    if as_json:
        print_json([values_of(row) for row in rows])
    else:
        print_rows(found, rows, output)
    if any(row.status in (DIFFERENT, FAILED) for row in rows):
        ctx.exit(SOMETHING_WRONG)


def measured_rows(found: Sweep, jobs: int | None, check: bool) -> list[Row]:
    """All rows, in the order of the points, with a bar on standard error while they are measured."""
    total = len(found.points())
    rows: dict[int, Row] = {}
    columns = (
        TextColumn("sweep"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=notes(), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("sweep", total=total)
        for place, row in run_sweep(found, jobs=jobs, check=check):
            rows[place] = row
            bar.update(task, completed=len(rows))
    return [rows[place] for place in range(total)]


def print_rows(found: Sweep, rows: list[Row], output: Path | None) -> None:
    """The rows as a table, what all have in common above it, the reasons below it."""
    values = [values_of(row) for row in rows]
    names = ["workload", *found.parameter_keys, "base", *found.machine.keys]
    varying = [name for name in names if len({str(value.get(name)) for value in values}) > 1]
    fixed = ", ".join(f"{name} {values[0][name]}" for name in names if name not in varying)
    shown = table(fixed, [*varying, "cycles", "utilisation", "efficiency", "read", "written", "status"], ())
    for column in shown.columns:
        column.no_wrap = True
    reasons: dict[str, None] = {}
    for row, value in zip(rows, values, strict=True):
        numbers = ["", "", "", "", ""]
        if row.numbers:
            counts = (f"{grouped(int(row.numbers[key]))} B" for key in ("bytes_read", "bytes_written"))
            shares = (percent(row.numbers[key]) for key in ("utilisation", "efficiency"))
            numbers = [grouped(int(row.numbers["cycles"])), *shares, *counts]
        shown.add_row(*(str(value.get(name, "")) for name in varying), *numbers, row.status)
        if row.status != OK:
            reasons[f"{row.status}: {row.reason}"] = None
    out = console(WIDTH)
    out.print(shown)
    for reason in reasons:
        out.print(f"\n{reason}", soft_wrap=True)
    statuses = Counter(row.status for row in rows)
    told = ", ".join(f"{count} {status}" for status, count in statuses.items())
    where = "" if output is None else f"  written to {output}"
    out.print(f"\n{len(rows)} rows: {told}{where}", soft_wrap=True)
