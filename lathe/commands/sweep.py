"""`lathe sweep`: every machine of a grid with every workload of a grid."""

import inspect
import sys
from collections import Counter
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from lathe.commands.options import FILE, json_option
from lathe.commands.results import number_told, print_table
from lathe.commands.sweep_plan import print_plan
from lathe.commands.terminal import console, notes, print_json, table
from lathe.configs.atomic import check_writable
from lathe.sweeps.execution import Running, check_of_one_place
from lathe.sweeps.measurement import DIFFERENT, FAILED, NUMBERS, OK, Row
from lathe.sweeps.pareto import pareto_front
from lathe.sweeps.parse_sweep import read_sweep
from lathe.sweeps.run_sweep import run_whole
from lathe.sweeps.specification import Search, Sweep
from lathe.sweeps.store import is_store
from lathe.sweeps.tables import REASON, STATUS, point_columns, values_of
from lathe.sweeps.workers import RETRIES
from lathe.sweeps.workloads import WORKLOADS, known_workloads, make

SOMETHING_WRONG = 1
STOPPED = 130  # as shells say of what Ctrl-C has ended
SHOWN = ("cycles", "utilisation", "efficiency", "bytes_read", "bytes_written")
TITLES = {"bytes_read": "read", "bytes_written": "written"}
"""The numbers of the table, where the file asks for no others; short titles of those with their unit in each cell."""
WIDTH = 200  # of the table when it does not go to a terminal; it has a column for each key that varies
MOST_COUNTED = 1_000_000  # of a grid with constraints; of a larger one the bar has no end


def show_workloads(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    """Print the workloads and leave."""
    if not wanted or ctx.resilient_parsing:
        return
    for name, function in WORKLOADS.items():
        parameters = ", ".join(map(_told, inspect.signature(function).parameters.values()))
        click.echo(f"{name}({parameters})\n    {inspect.getdoc(function)}")
    ctx.exit()


def _told(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_KEYWORD:
        return "..."
    return parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default}"


@click.command()
@click.argument("sweep_file", metavar="SWEEP", type=FILE)
@click.option("-o", "--output", type=FILE, help="The store (.db, .sqlite) or the CSV file (any other suffix) to write.")
@click.option("--jobs", type=click.IntRange(min=1), help="Processes.  [default: one for each core]")
@click.option("--check", is_flag=True, help="Also compare every output with NumPy, on random inputs.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds that one point may take.")
@click.option(
    "--retries", type=click.IntRange(min=0), default=RETRIES, show_default=True,
    help="How often a point is begun anew whose process has ended.",
)  # fmt: skip
@click.option(
    "--cluster", metavar="tcp://HOST:PORT", help="Measure on the workers of a Dask scheduler (extra `cluster`)."
)
@click.option("--dry-run", is_flag=True, help="Print the points, why some have no numbers, and an estimate of time.")
@click.option("--yes", is_flag=True, help="Measure grids of more than 100000 points, too.")
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

    SWEEP is a YAML file. "base" names the machine or machines to begin with, "machine" the parameters to change, each
    with a value or a list of values, and "workloads" lists operators with their shapes. Every combination is built and
    simulated, and becomes a row with its cycles, utilisation, efficiency, bytes and energy, and the area and clock of
    its RTL where "hardware" asks for them. Machines that cannot exist, shapes that do not fit each other, and workloads
    that do not map are rows with the reason. What no row could be right with is a mistake in the file, and nothing
    runs. docs/design-space-exploration.md has all that such a file may say, samples and searches among it.

    With -o RESULTS.db each row is kept as soon as it is there. The same command goes on where it was stopped or killed,
    and `lathe results` reads the store. With another suffix the rows are CSV.

    Two examples come with Lathe, and SWEEP may be their names: matmul_blocks and conv_buffers; they lie in
    configs/sweeps. The exit status is 1 when outputs differ from NumPy's, or when Lathe itself failed on a row.
    """
    found = read_sweep(sweep_file, known_workloads(), make, any_size=yes)
    if cluster is not None:
        check_of_one_place("--jobs", jobs)
    running = Running(jobs, timeout, retries, cluster)
    if dry_run:
        try:
            print_plan(found, running, check, as_json)
        except KeyboardInterrupt:
            click.echo("Stopped. A dry run keeps nothing.", err=True)
            ctx.exit(STOPPED)
        return
    if output is not None:
        check_writable(output)
    try:
        rows = watched_rows(found, output, running, check)
    except KeyboardInterrupt:
        kept = "Nothing was kept." if output is None else f"What was measured is kept in {output}."
        if output is not None and is_store(output):
            kept += " The same command goes on."
        click.echo(f"Stopped. {kept}", err=True)
        ctx.exit(STOPPED)
    if as_json:
        print_json([values_of(row, found.metrics) for row in rows])
    else:
        print_rows(found, rows, output)
        if found.search is not None:
            print_front(found, found.search, rows)
    if any(row.status in (DIFFERENT, FAILED) for row in rows):
        ctx.exit(SOMETHING_WRONG)


def print_front(found: Sweep, search: Search, rows: list[Row]) -> None:
    """The rows of a search that no other beats in what it looks for."""
    names = [*point_columns(found), STATUS, *NUMBERS, REASON]
    table_rows = [{name: value.get(name) for name in names} for value in map(values_of, rows)]
    click.echo()
    print_table(pareto_front(table_rows, search.objectives), search.objectives)


def watched_rows(found: Sweep, output: Path | None, running: Running, check: bool) -> list[Row]:
    """All rows, in the order of the points, with a bar on standard error while they are measured."""
    columns = (
        TextColumn("sweep"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failures]} without numbers"),
    )
    counts = Counter[bool]()
    with Progress(*columns, console=notes(), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("sweep", total=_total(found), rate="", failures=0)

        def watch(_place: int, row: Row) -> None:
            counts[row.status == OK] += 1
            bar.update(task, completed=counts.total(), rate=_rate(bar.tasks[task].speed), failures=counts[False])

        return list(run_whole(found, output, running, check=check, watch=watch).values())


def _total(found: Sweep) -> int | None:
    if found.search is not None:
        return min(found.search.points, found.count)
    if not found.constraints:
        return found.count if found.sample is None else min(found.sample.points, found.count)
    return sum(1 for _ in found.places()) if found.count <= MOST_COUNTED else None


def _rate(speed: float | None) -> str:
    return "" if speed is None else f"{60 * speed:.3g} points a minute"


def print_rows(found: Sweep, rows: list[Row], output: Path | None) -> None:
    """The rows as a table, what all have in common above it, the reasons below it."""
    values = [values_of(row) for row in rows]
    names = point_columns(found)
    varying = [name for name in names if len({str(value.get(name)) for value in values}) > 1]
    fixed = ", ".join(f"{name} {values[0][name]}" for name in names if rows and name not in varying)
    metrics = found.metrics or SHOWN
    shown = table(fixed, [*varying, *(TITLES.get(name, name) for name in metrics), "status"], ())
    for column in shown.columns:
        column.no_wrap = True
    reasons: dict[str, None] = {}
    for row, value in zip(rows, values, strict=True):
        numbers = [number_told(name, row.numbers.get(name)) for name in metrics]
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
