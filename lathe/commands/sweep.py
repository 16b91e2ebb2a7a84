"""`lathe sweep`: measure every workload of a grid on every machine of a grid."""

import inspect
import sys
from collections import Counter
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from lathe.commands.options import FILE, json_option
from lathe.commands.results import number_text, print_table
from lathe.commands.sweep_plan import print_plan
from lathe.commands.terminal import console, notes, print_json, table
from lathe.configs.atomic import check_writable
from lathe.sweeps.execution import ExecutionOptions, check_not_distributed
from lathe.sweeps.measurement import DIFFERENT, FAILED, METRICS, OK, Row
from lathe.sweeps.pareto import pareto_front
from lathe.sweeps.parse_sweep import read_sweep
from lathe.sweeps.run_sweep import run_whole
from lathe.sweeps.specification import Search, Sweep
from lathe.sweeps.store import is_store
from lathe.sweeps.tables import REASON, STATUS, point_columns, values_of
from lathe.sweeps.workers import RETRIES
from lathe.sweeps.workloads import WORKLOADS, known_workloads, make

SOMETHING_WRONG = 1
STOPPED = 130  # the exit status that shells use after Ctrl-C
SHOWN = ("cycles", "utilisation", "efficiency", "bytes_read", "bytes_written")
TITLES = {"bytes_read": "read", "bytes_written": "written"}
"""SHOWN: the default metrics of the table. TITLES: shorter titles for metrics whose cells include the unit."""
WIDTH = 200  # of the table if not on a terminal; it has a column for each key that varies
MOST_COUNTED = 1_000_000  # points of a grid with constraints; for a larger one the progress bar has no total


def show_workloads(ctx: click.Context, _parameter: click.Parameter, requested: bool) -> None:
    """Print the workloads and exit."""
    if not requested or ctx.resilient_parsing:
        return
    for name, function in WORKLOADS.items():
        parameters = ", ".join(map(_parameter_text, inspect.signature(function).parameters.values()))
        click.echo(f"{name}({parameters})\n    {inspect.getdoc(function)}")
    ctx.exit()


def _parameter_text(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_KEYWORD:
        return "..."
    return parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default}"


@click.command()
@click.argument("sweep_file", metavar="SWEEP", type=FILE)
@click.option("-o", "--output", type=FILE, help="The store (.db, .sqlite) or the CSV file (any other suffix) to write.")
@click.option("--jobs", type=click.IntRange(min=1), help="The number of processes.  [default: one per core]")
@click.option("--check", is_flag=True, help="Also compare every output with NumPy, on random inputs.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="The time limit of a point, in seconds.")
@click.option(
    "--retries", type=click.IntRange(min=0), default=RETRIES, show_default=True,
    help="How often a point is retried if its process dies.",
)  # fmt: skip
@click.option(
    "--cluster", metavar="tcp://HOST:PORT", help="Measure on the workers of a Dask scheduler (extra `cluster`)."
)
@click.option(
    "--dry-run", is_flag=True, help="Print the points, why some have no metrics, and an estimate of the time."
)
@click.option("--yes", is_flag=True, help="Allow grids of more than 100000 points.")
@click.option(
    "--workloads", is_flag=True, is_eager=True, expose_value=False, callback=show_workloads,
    help="List the workloads with their parameters, and exit.",
)  # fmt: skip
@json_option
@click.pass_context
def sweep(
    ctx: click.Context,
    sweep_file: Path,
    output: Path | None,
    jobs: int | None,
    check: bool,
    timeout: float | None,
    retries: int,
    cluster: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Measure workloads on a grid of machines.

    SWEEP is a YAML file. "base" names the base machine or machines, "machine" the parameters to change, each with a
    value or a list of values, and "workloads" lists operators with their shapes. Every combination is built and
    simulated, and becomes a row with its cycles, utilisation, efficiency, bytes and energy, and with the area and clock
    of its RTL if "hardware" requests them. Rows for invalid machines, inconsistent shapes, and workloads that cannot be
    mapped have the reason instead. An error that would affect every row is reported before anything runs.
    docs/design-space-exploration.md specifies the file, including samples and searches.

    With -o RESULTS.db each row is stored as soon as it is measured. The same command resumes a sweep that was stopped
    or killed, and `lathe results` reads the store. With another suffix the rows are written as CSV.

    SWEEP may also be the name of an example in configs/sweeps: matmul_blocks or conv_buffers. The exit status is 1 if
    outputs differ from NumPy's, or if Lathe itself failed on a row.
    """
    spec = read_sweep(sweep_file, known_workloads(), make, any_size=yes)
    if cluster is not None:
        check_not_distributed("--jobs", jobs)
    running = ExecutionOptions(jobs, timeout, retries, cluster)
    if dry_run:
        try:
            print_plan(spec, running, check, as_json)
        except KeyboardInterrupt:
            click.echo("Stopped. A dry run stores nothing.", err=True)
            ctx.exit(STOPPED)
        return
    if output is not None:
        check_writable(output)
    try:
        rows = watched_rows(spec, output, running, check)
    except KeyboardInterrupt:
        stored = "No rows were stored." if output is None else f"The measured rows are stored in {output}."
        if output is not None and is_store(output):
            stored += " The same command resumes."
        click.echo(f"Stopped. {stored}", err=True)
        ctx.exit(STOPPED)
    if as_json:
        print_json([values_of(row, spec.metrics) for row in rows])
    else:
        print_rows(spec, rows, output)
        if spec.search is not None:
            print_front(spec, spec.search, rows)
    if any(row.status in (DIFFERENT, FAILED) for row in rows):
        ctx.exit(SOMETHING_WRONG)


def print_front(spec: Sweep, search: Search, rows: list[Row]) -> None:
    """Print the Pareto front of a search, in its objectives."""
    names = [*point_columns(spec), STATUS, *METRICS, REASON]
    table_rows = [{name: value.get(name) for name in names} for value in map(values_of, rows)]
    click.echo()
    print_table(pareto_front(table_rows, search.objectives), search.objectives)


def watched_rows(spec: Sweep, output: Path | None, running: ExecutionOptions, check: bool) -> list[Row]:
    """All rows, in the order of the points, with a progress bar on standard error while they are measured."""
    columns = (
        TextColumn("sweep"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("remaining"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failures]} without metrics"),
    )
    counts = Counter[bool]()
    with Progress(*columns, console=notes(), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("sweep", total=_total(spec), rate="", failures=0)

        def watch(_index: int, row: Row) -> None:
            counts[row.status == OK] += 1
            bar.update(task, completed=counts.total(), rate=_rate(bar.tasks[task].speed), failures=counts[False])

        return list(run_whole(spec, output, running, check=check, watch=watch).values())


def _total(spec: Sweep) -> int | None:
    if spec.search is not None:
        return min(spec.search.points, spec.count)
    if not spec.constraints:
        return spec.count if spec.sample is None else min(spec.sample.points, spec.count)
    return sum(1 for _ in spec.indices()) if spec.count <= MOST_COUNTED else None


def _rate(speed: float | None) -> str:
    return "" if speed is None else f"{60 * speed:.3g} points a minute"


def print_rows(spec: Sweep, rows: list[Row], output: Path | None) -> None:
    """Print the rows as a table, with common values as its title and the reasons of failures below it."""
    values = [values_of(row) for row in rows]
    names = point_columns(spec)
    varying = [name for name in names if len({str(value.get(name)) for value in values}) > 1]
    fixed = ", ".join(f"{name} {values[0][name]}" for name in names if rows and name not in varying)
    metrics = spec.metrics or SHOWN
    shown = table(fixed, [*varying, *(TITLES.get(name, name) for name in metrics), "status"], ())
    for column in shown.columns:
        column.no_wrap = True
    reasons: dict[str, None] = {}
    for row, value in zip(rows, values, strict=True):
        numbers = [number_text(name, row.numbers.get(name)) for name in metrics]
        shown.add_row(*(str(value.get(name, "")) for name in varying), *numbers, row.status)
        if row.status != OK:
            reasons[f"{row.status}: {row.reason}"] = None
    out = console(WIDTH)
    out.print(shown)
    for reason in reasons:
        out.print(f"\n{reason}", soft_wrap=True)
    statuses = Counter(row.status for row in rows)
    summary = ", ".join(f"{count} {status}" for status, count in statuses.items())
    where = "" if output is None else f"  written to {output}"
    out.print(f"\n{len(rows)} rows: {summary}{where}", soft_wrap=True)
