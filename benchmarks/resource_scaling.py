"""The effect of doubling a resource on random small layers on random machines: how many slow down, and by how much.

Convolutions and matmuls on machines similar to `vta` and `lathe16`, compiled for each machine with `--budget` candidate
schedules (1: the default schedule only). `benchmarks/sweeps.py` measures the same for a whole network. A layer whose
channels are no multiple of a block computes and transfers more with larger blocks, whatever its schedule: pairs whose
lower bound rises are counted separately.

    python benchmarks/resource_scaling.py [--layers N] [--seed N] [--budget N] [--json]
"""

import argparse
import random
import time
from typing import Any

from figures import Figure, at_most, show

import lathe as lt
from lathe.sweeps.measurement import OK, Options, measure
from lathe.sweeps.specification import Point

MOST = 0.01
"""The maximum relative slowdown with more of a resource."""
BUFFERS = tuple(f"{name}_buffer_bytes" for name in ("inp", "wgt", "acc", "par"))


def machine(chance: random.Random) -> tuple[str, dict[str, int]]:
    """The base of a random machine, and its changed parameters."""
    base = chance.choice(["vta", "lathe16"])
    config, share = lt.load_config(base), chance.choice([1, 2, 4])
    sizes = {name: getattr(config, name) // share for name in BUFFERS if getattr(config, name)}
    return base, {
        "block_in": chance.choice([8, 16, 32]),
        "block_out": chance.choice([8, 16, 32]),
        "memory.bus_bits": chance.choice([32, 64, 128]),
        "memory.latency": chance.choice([8, 16, 32, 64, 128]),
        "memory.outstanding_reads": chance.choice([1, 2, 4, 8]),
        **sizes,
    }


def layer(chance: random.Random) -> tuple[str, dict[str, Any]]:
    """A random workload with its parameters."""
    epilogue = chance.choice(["cut", "requantise"])
    if chance.random() < 0.5:
        return "matmul", {name: chance.randrange(1, 300) for name in "mnk"} | {"epilogue": epilogue}
    return "conv2d", {
        "height": chance.randrange(7, 29),
        "width": chance.randrange(7, 29),
        "channels": chance.choice([16, 32, 48, 64]),
        "filters": chance.choice([16, 32, 64, 96]),
        "kernel": chance.choice([1, 3]),
        "stride": chance.choice([1, 2]),
        "padding": 1,
        "epilogue": epilogue,
    }


def better(changes: dict[str, int]) -> dict[str, dict[str, int]]:
    """The changed parameters of machines with more of each resource."""
    twice = {name: {name: 2 * changes[name]} for name in ("block_in", "block_out")}
    return {
        **twice,
        "twice the bus": {"memory.bus_bits": 2 * changes["memory.bus_bits"]},
        "half the latency": {"memory.latency": changes["memory.latency"] // 2},
        "twice the outstanding reads": {"memory.outstanding_reads": 2 * changes["memory.outstanding_reads"]},
        "twice the scratchpads": {name: 2 * changes[name] for name in BUFFERS if name in changes},
    }


def named(what: str) -> str:
    return f"twice {what}" if what.startswith("block") else what


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=int, default=12, help="the number of schedules to try for each machine")
    parser.add_argument("--json", action="store_true", help="print a list of {name, value, unit, target, met}")
    given = parser.parse_args()
    chance, options = random.Random(given.seed), Options(budget=given.budget)
    rows, used = 0, time.process_time()
    slower: dict[str, list[float]] = {}
    forced: dict[str, int] = {}
    for _ in range(given.layers):
        (base, changes), work = machine(chance), layer(chance)
        first = measure(Point(base, changes, *work), options=options)
        rows += 1
        if first.status != OK:
            continue
        for what, more in better(changes).items():
            other = measure(Point(base, {**changes, **more}, *work), options=options)
            rows += 1
            if other.status == OK:
                part, least = (other.numbers[name] / first.numbers[name] - 1 for name in ("cycles", "bound_cycles"))
                slower.setdefault(what, []).append(part)
                forced[what] = forced.get(what, 0) + (part > MOST and least > MOST)
    figures = [Figure("CPU time of a row", round((time.process_time() - used) / max(rows, 1), 3), "s")]
    for what, parts in slower.items():
        figures += [
            Figure(f"{named(what)}: pairs", len(parts), ""),
            Figure(f"{named(what)}: slower by more than {MOST:.0%}", sum(part > MOST for part in parts), "pairs"),
            Figure(f"{named(what)}: of these with a higher bound", forced[what], "pairs"),
            at_most(f"{named(what)}: slower by, at most", max(parts), "of the cycles", MOST),
        ]
    show(figures, as_json=given.json)


if __name__ == "__main__":
    main()
