"""`lathe results`: the rows of a sweep's store, or their Pareto front, as a table, CSV, JSON or Parquet."""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from lathe.commands.options import FILE, json_option
from lathe.commands.terminal import console, grouped, percent, print_json, table
from lathe.configs.atomic import check_writable, write_bytes, write_text
from lathe.sweeps.current_rows import current_rows, outdated_text
from lathe.sweeps.errors import SweepError
from lathe.sweeps.measurement import METRICS
from lathe.sweeps.pareto import metrics_of, pareto_front
from lathe.sweeps.run_sweep import flat_rows
from lathe.sweeps.store import reading_store
from lathe.sweeps.tables import SECONDS, csv_lines, workload_of

WIDTH = 200
SHOWN = ("cycles", "efficiency", "time_us", "energy_pj")
"""The default metrics of the table."""


@click.command()
@click.argument("store", metavar="RESULTS.db", type=FILE)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--parquet", "as_parquet", is_flag=True, help="Write Parquet (extra `sweep`).")
@click.option("-o", "--output", type=FILE, help="Write to this file instead of printing.")
@click.option(
    "--pareto", metavar="A,B", help="Only the Pareto front in these metrics, which are minimised; -A is maximised."
)
@click.option(
    "--metrics", metavar="A,B", help="The metrics of the table.  [default: those of --pareto, or the main ones]"
)
@click.option("--all", "every", is_flag=True, help="Also rows of earlier versions of files and options.")
@json_option
def results(
    store: Path,
    as_csv: bool,
    as_parquet: bool,
    output: Path | None,
    pareto: str | None,
    metrics: str | None,
    every: bool,
    as_json: bool,
) -> None:
    """Show the points that a sweep has measured so far.

    RESULTS.db is the store of `lathe sweep -o RESULTS.db`, which may still be running. JSON is a list of flat rows;
    values that vary between runs have keys with "second" in them. --pareto shows the rows for which no other of the
    same workload is at least as good in all of the metrics and better in one. A store has all metrics, of which the
    table shows some. If a point was measured with several versions of a file or option, the last one is shown, unless
    --all is given.
    """
    if as_csv + as_json + as_parquet > 1:
        raise SweepError("The format of results must be one of --csv, --json and --parquet, not several. Choose one.")
    if as_parquet and output is None and sys.stdout.isatty():
        raise SweepError(
            "Cannot write --parquet to a terminal: it is a binary format. Give -o FILE, or redirect standard output."
        )
    if output is not None and not (as_csv or as_json or as_parquet):
        raise SweepError("-o requires one of --csv, --json and --parquet, and none is given. Choose one.")
    if metrics is not None and (as_csv or as_json or as_parquet):
        raise SweepError("--metrics must be left out with --csv, --json and --parquet, which write all. Leave it out.")
    if output is not None:
        check_writable(output)
    with reading_store(store) as opened:
        stored = opened.rows()
    present = stored if every else current_rows(stored)
    rows: Sequence[Mapping[str, Any]] = flat_rows(present)
    shown = () if metrics is None else metrics_of(metrics, rows, "--metrics")
    objectives: tuple[str, ...] = ()
    if pareto is not None:
        objectives = metrics_of(pareto, rows, "--pareto", signed=True)
        rows = pareto_front(rows, objectives)
    if as_parquet:
        content = parquet_bytes(rows)
        if output is None:
            click.echo(content, nl=False)
        else:
            write_bytes(output, content)
    elif as_csv:
        _print_or_write(csv_lines(rows[0] if rows else (), rows), output)
    elif as_json and output is None:
        print_json([dict(row) for row in rows])
    elif as_json:
        _print_or_write(json_text(rows), output)
    else:
        print_table(rows, objectives, shown, outdated_text(stored, present))


def json_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Flat rows as JSON text."""
    return json.dumps([dict(row) for row in rows], indent=2) + "\n"


def parquet_bytes(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The rows as one Parquet file. Raises SweepError without pyarrow."""
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise SweepError(
            f"Cannot write Parquet: package 'pyarrow' cannot be imported: {error}. Install it with: pip install "
            "'lathe-npu[sweep]'."
        ) from None
    columns = {key: _of_one_type([row[key] for row in rows]) for key in (rows[0] if rows else ())}
    sink = arrow.BufferOutputStream()
    parquet.write_table(arrow.table(columns), sink)
    return bytes(sink.getvalue().to_pybytes())


def _of_one_type(values: list[Any]) -> list[Any]:
    """Values as one type: numbers, or strings if an axis mixes both."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float}:
        return [float(value) if value is not None and float in kinds else value for value in values]
    return [value if value is None or kinds == {type(value)} else str(value) for value in values]


def _print_or_write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)


def print_table(
    rows: Sequence[Mapping[str, Any]], objectives: Sequence[str], metrics: Sequence[str] = (), without: str = ""
) -> None:
    """Print a table of rows with their metrics; columns that are equal in all rows are in its title.

    ``without``: a description of rows that are left out.
    """
    names = [key for key in (rows[0] if rows else ()) if key not in (*METRICS, "status", "reason", SECONDS)]
    varying = [name for name in names if len({str(row[name]) for row in rows}) > 1]
    fixed = ", ".join(f"{name} {rows[0][name]}" for name in names if name not in varying and rows[0][name] is not None)
    chosen = metrics or [name.removeprefix("-") for name in objectives] or SHOWN
    numbers = [name for name in chosen if any(row.get(name) is not None for row in rows)]
    cells = []
    for row in rows:
        point = ["" if row[name] is None else row[name] for name in varying]
        cells.append((*point, *(number_text(name, row[name]) for name in numbers), row["status"]))
    out = console(WIDTH)
    out.print(table(fixed, [*varying, *numbers, "status"], cells, left=0))
    statuses = ", ".join(f"{count} {status}" for status, count in Counter(row["status"] for row in rows).items())
    which = f" of the Pareto front in {', '.join(objectives)}" if objectives else ""
    which += ", separately for each workload" if objectives and len({workload_of(row) for row in rows}) > 1 else ""
    out.print(f"\n{len(rows)} rows{which}: {statuses}" if rows else "no rows", soft_wrap=True)
    if without:
        out.print(f"without {without}: use --all to include them", soft_wrap=True)


def number_text(name: str, value: object) -> str:
    """A number as text for a table; "" if there is none."""
    if name in ("utilisation", "efficiency") and isinstance(value, int | float):
        return percent(value)
    if isinstance(value, float):
        return grouped(int(value)) if value.is_integer() else f"{value:.4g}"
    text = grouped(value) if isinstance(value, int) else ""
    return f"{text} B" if text and name in ("bytes_read", "bytes_written") else text
