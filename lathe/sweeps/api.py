"""``lt.sweep``: runs a sweep from Python, and returns its rows as dictionaries."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lathe.configs.errors import shown
from lathe.sweeps.errors import SweepError
from lathe.sweeps.execution import ExecutionOptions, check_not_distributed
from lathe.sweeps.feasibility import MOST_POINTS
from lathe.sweeps.parse_sweep import SweepFile, read_sweep
from lathe.sweeps.rows import SweepRows
from lathe.sweeps.run_sweep import run_whole
from lathe.sweeps.specification import Sweep
from lathe.sweeps.tables import SECONDS, values_of
from lathe.sweeps.workers import RETRIES
from lathe.sweeps.workloads import known_workloads, make


def sweep(
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    output: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    check: bool = False,
    timeout: float | None = None,
    retries: int = RETRIES,
    any_size: bool = False,
    cluster: str | None = None,
) -> SweepRows:
    """Measure workloads on a grid of machines; returns a row for each point, in grid order.

    ``source``: the path of a sweep file, the name of a shipped one, or the content of one as a dictionary
    (docs/design-space-exploration.md). A row is a dictionary: "workload" with its parameters, "base" with the changed
    parameters of the machine, "status" ("ok", or why there are no metrics, with a "reason"), and the metrics ("cycles",
    "energy_pj" and others). Keys of values that differ from run to run contain "second".

    ``output``: a store, ``.db``, whose rows are not measured again, or a CSV file. ``jobs``: the number of processes,
    by default one per core; points are never measured in the calling process. ``timeout``: the time limit of a point,
    in seconds. ``retries``: how often a point is retried if its process dies. ``check``: compare outputs with NumPy's.
    ``any_size``: allow grids of more than 100,000 points. ``cluster``: the address of a Dask scheduler, whose workers
    measure the points instead.

        >>> rows = lt.sweep({"machine": {"memory.latency": [0, 32]},
        ...                  "workloads": [{"matmul": {"m": 64, "n": 64, "k": 64}}]})  # doctest: +SKIP
        >>> [row["cycles"] for row in rows]  # doctest: +SKIP

    Raises SweepError and ConfigError for errors that would affect every row, FileError for an output that cannot be
    written.
    """
    running = ExecutionOptions(_count(jobs, "jobs", 1), _seconds(timeout), _count(retries, "retries", 0) or 0, cluster)
    if cluster is not None:
        check_not_distributed("jobs", jobs)
    spec = _read(source, any_size)
    rows = run_whole(spec, None if output is None else Path(output), running, check=check)
    return SweepRows({**values_of(row, spec.metrics), SECONDS: round(row.seconds, 6)} for row in rows.values())


def _read(source: object, any_size: bool) -> Sweep:
    if isinstance(source, Mapping):
        try:
            text = yaml.safe_dump(_plain(source, any_size), sort_keys=False)
        except yaml.YAMLError as error:
            reason = " ".join(str(error).split())
            raise SweepError(f"The dictionary of a sweep must have plain values only: {reason}.") from None
        return SweepFile(Path("sweep"), text, known_workloads(), make, any_size).sweep()
    if not isinstance(source, str | os.PathLike):
        raise SweepError(f"The source of a sweep must be a path, a name or a dictionary, not {shown(source)}.")
    return read_sweep(source, known_workloads(), make, any_size=any_size)


def _plain(value: object, any_size: bool) -> object:
    """Convert mappings to dictionaries, sequences to lists, paths to texts, and ranges to mappings from, to, step.

    Raises SweepError for sequences of more values than a grid may have points.
    """
    if isinstance(value, Mapping):
        return {str(key): _plain(each, any_size) for key, each in value.items()}
    if isinstance(value, range) and value.step > 0 and value:
        return {"from": value[0], "to": value[-1], "step": value.step}
    if isinstance(value, list | tuple | range):
        if len(value) > MOST_POINTS and not any_size:
            raise SweepError(
                f"A list of a sweep must have at most {MOST_POINTS} values without any_size, not {len(value)}. Give "
                "fewer values, or a rising range with a sample or a search."
            )
        return [_plain(each, any_size) for each in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _count(value: object, name: str, least: int) -> int | None:
    if value is None and name == "jobs":
        return None
    if type(value) is not int or value < least:
        raise SweepError(f"{name} of a sweep must be an integer of at least {least}, not {shown(value)}.")
    return value


def _seconds(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise SweepError(f"timeout of a sweep must be a number of seconds above 0, not {shown(value)}.")
    return float(value)
