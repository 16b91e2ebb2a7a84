"""A timing-only sweep of ResNet-18 on 200 machines: CPU-seconds per point, and the speed-up by a second core.

Five shapes of the matrix core, five scratchpad sizes, two buses and four latencies, on `lathe16`; the model is that of
`benchmarks/networks.py` with symmetric activations. Schedules are shared between memories. The cache is empty at the
start. Rates are measured on 32 of these points: four shapes and sizes, each with all eight memories.

Of machines that differ in one resource, the one with twice the scratchpads, twice the bus or the next shorter latency
should not take more cycles. The CPU time of a point is listed with that of other simulators, which has no target.

`--points` limits the number of points: shapes and sizes along the diagonals of the grid, each with all eight memories.
`--store` stores the rows, and resumes from stored ones. `--no-rates` skips the rates; `--only-rates` measures only
them, which takes four minutes on two otherwise idle cores.

    python benchmarks/sweeps.py [--points N] [--store RESULTS.db] [--no-rates | --only-rates] [--json]
"""

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from figures import Figure, at_least, at_most, show
from interruption import PROCESSES, seconds_after_interruption
from network_models import CASES

import lathe as lt
from lathe.sweeps.keys import measuring_sources
from lathe.sweeps.store import reading_store

BLOCKS = [[16, 16], [16, 32], [32, 16], [32, 32], [64, 32]]
SCRATCHPADS = [[size >> shift for size in (32768, 262144, 131072, 32768)] for shift in range(5)]
BUSES, LATENCIES = [64, 128], [0, 32, 64, 128]
SHAPE = ("block_in", "block_out")
BUFFERS = tuple(f"{name}_buffer_bytes" for name in ("inp", "wgt", "acc", "par"))
MEMORIES = len(BUSES) * len(LATENCIES)
MOST = 0.01
"""The maximum relative slowdown with more of a resource."""

OTHERS = {"SCALE-Sim 3.0": 591, "ZigZag 3.9": 49}
"""CPU-seconds of other simulators for ResNet-18 on one machine of 16 by 16 multipliers, measured once elsewhere."""

Row = Mapping[str, Any]


def cores(count: int) -> list[list[int]]:
    """The first ``count`` of the 25 pairs of shape and sizes, in an order that covers all shapes and sizes early."""
    diagonals = [
        (shape, SCRATCHPADS[(n + first) % len(SCRATCHPADS)])
        for first in range(len(SCRATCHPADS))
        for n, shape in enumerate(BLOCKS)
    ]
    return [[*shape, *sizes] for shape, sizes in diagonals[:count]]


def sweep_of(model: Path, chosen: Sequence[Sequence[int]]) -> dict[str, Any]:
    return {
        "base": "lathe16",
        "machine": {
            ", ".join((*SHAPE, *BUFFERS)): [list(core) for core in chosen],
            "memory.bus_bits": BUSES,
            "memory.latency": LATENCIES,
        },
        "workloads": [{"onnx": {"path": str(model)}}],
        "schedules": "shared",
    }


def run(source: dict[str, Any], jobs: int, store: Path | None = None) -> tuple[list[dict[str, Any]], float, float]:
    """Run a sweep with an empty cache; returns the rows, and the seconds and CPU-seconds that they took."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LATHE_CACHE"] = folder
        before, start = _used(), time.perf_counter()
        rows = lt.sweep(source, output=store or Path(folder) / "results.db", jobs=jobs)
        return rows, time.perf_counter() - start, _used() - before


def _used() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def better(row: Row) -> Iterator[tuple[str, dict[str, int]]]:
    """The changed columns of the rows of machines with more of one resource."""
    yield "twice the scratchpads", {name: 2 * row[name] for name in BUFFERS}
    yield "twice the bus", {"memory.bus_bits": 2 * row["memory.bus_bits"]}
    shorter = [latency for latency in LATENCIES if latency < row["memory.latency"]]
    if shorter:
        yield "a shorter latency", {"memory.latency": max(shorter)}


def slower(rows: Sequence[Row]) -> dict[str, tuple[float, Row]]:
    """By resource the maximum relative slowdown with more of it, and the machine."""
    keys = (*SHAPE, *BUFFERS, "memory.bus_bits", "memory.latency")
    known = {tuple(row[key] for key in keys): row for row in rows}
    worst: dict[str, tuple[float, Row]] = {}
    for row in rows:
        for what, changes in better(row):
            other = known.get(tuple({**row, **changes}[key] for key in keys))
            if other is not None:
                found = other["cycles"] / row["cycles"] - 1
                if what not in worst or found > worst[what][0]:
                    worst[what] = found, row
    return worst


def reusable_rows(store: Path | None) -> int:
    """The number of rows of a store that will not be measured again."""
    if store is None or not store.exists():
        return 0
    with reading_store(store) as reused:
        return sum(row.sources == measuring_sources() for row in reused.rows())


def of_machine(row: Row) -> str:
    """A short description of a machine."""
    return "x".join(str(row[key]) for key in SHAPE) + (
        f", inp {row['inp_buffer_bytes'] // 1024} KiB, bus {row['memory.bus_bits']}, latency {row['memory.latency']}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    whole = len(BLOCKS) * len(SCRATCHPADS) * MEMORIES
    parser.add_argument("--points", type=int, default=whole, help=f"the number of points, of {whole}")
    parser.add_argument("--store", type=Path, help="the file to store rows in, and to resume from")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--no-rates", action="store_true", help="do not compare two cores with one")
    chosen.add_argument("--only-rates", action="store_true", help="only compare two cores with one")
    parser.add_argument("--json", action="store_true", help="print a list of {name, value, unit, target, met}")
    given = parser.parse_args()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "resnet18.onnx"
        CASES["ResNet-18 symmetric"].write(model)
        if not given.only_rates:
            figures += of_points(model, given.points, given.store)
        if not given.no_rates:
            some = sweep_of(model, [[*BLOCKS[n], *sizes] for n in (0, 3) for sizes in SCRATCHPADS[:2]])
            (_, one, _), (_, two, _) = run(some, 1), run(some, 2)
            figures.append(at_least("rate of two cores against one", one / two, "times", 1.8))
    if not given.only_rates and PROCESSES.is_dir():
        gone = seconds_after_interruption()
        figures.append(at_most("from Ctrl-C until no process of a sweep is left, the longest of three", gone, "s", 2))
    show(figures, as_json=given.json)


def of_points(model: Path, points: int, store: Path | None) -> list[Figure]:
    """The figures of the first points of the sweep, on two processes."""
    whole = len(BLOCKS) * len(SCRATCHPADS) * MEMORIES
    reused = reusable_rows(store)
    rows, took, used = run(sweep_of(model, cores(-(-points // MEMORIES))), 2, store)
    ok = [row for row in rows if row["status"] == "ok"]
    figures = [Figure(f"points of {whole}", len(rows), ""), Figure("points with numbers", len(ok), "")]
    measured = len(rows) - reused
    if measured > 0:
        figures += [
            Figure("points measured now", measured, ""),
            Figure("wall time on two cores", round(took, 1), "s"),
            Figure("rate on two cores", round(60 * measured / took, 1), "points/min"),
            at_most("CPU time of a point", used / measured, "CPU-s", 6),
            *(Figure(f"one such point by {name}", seconds, "CPU-s") for name, seconds in OTHERS.items()),
        ]
    figures += [
        at_most(f"{what} ({of_machine(row)}): slower by", part, "of the cycles", MOST)
        for what, (part, row) in slower(ok).items()
    ]
    return [
        *figures,
        Figure("fewest cycles", min(row["cycles"] for row in ok), ""),
        Figure("most cycles", max(row["cycles"] for row in ok), ""),
    ]


if __name__ == "__main__":
    main()
