"""The output format of all benchmarks: a table, or with --json a list of {name, value, unit, target, met}."""

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter


@dataclass(frozen=True)
class Figure:
    """One measured value; ``target`` as text, and whether it is ``met`` (None: no target)."""

    name: str
    value: float
    unit: str
    target: str = ""
    met: bool | None = None


def at_least(name: str, value: float, unit: str, limit: float) -> Figure:
    return Figure(name, round(value, 3), unit, f">= {limit:g}", value >= limit)


def at_most(name: str, value: float, unit: str, limit: float) -> Figure:
    return Figure(name, round(value, 3), unit, f"<= {limit:g}", value <= limit)


def seconds(work: Callable[[], object], runs: int = 5) -> float:
    """The median time of some runs, after a warm-up run."""
    work()
    times = []
    for _ in range(runs):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return median(times)


def one_core() -> None:
    """Pin this process to one core, as the targets assume."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def report(figures: list[Figure], description: str) -> None:
    """Print figures in the format that the command line selects; called last by a benchmark."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print a list of {name, value, unit, target, met}")
    show(figures, as_json=parser.parse_args().json)


def show(figures: list[Figure], *, as_json: bool) -> None:
    """Print figures as JSON, or as a table with targets and verdicts."""
    if as_json:
        print(json.dumps([asdict(figure) for figure in figures], indent=2))
        return
    width = max(len(figure.name) for figure in figures)
    for figure in figures:
        verdict = {True: "met", False: "MISSED", None: ""}[figure.met]
        print(f"{figure.name:{width}}  {figure.value:>12,.3f} {figure.unit:<18} {figure.target:>10}  {verdict}")
