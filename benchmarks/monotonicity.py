"""Monotonicity: whether doubling a scratchpad or the bus, or halving the latency, slows random programs down.

Twenty pairs of program and machine of `distance_to_bound.py`, each on its machine and on valid machines with more of
one resource, with the default schedule, or autotuned with `--budget` candidates. A row for each pair: the relative
slowdown on the worst of its better machines.

    python benchmarks/monotonicity.py [--pairs N] [--budget N] [--json]
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent))

from distance_to_bound import BOUNDS, MOST_TRAFFIC
from figures import Figure, at_most, show
from random_pairs import least_moved, machine, program

import lathe as lt
from lathe.frontend import placeholders

MOST = 0.01
"""The maximum relative slowdown with more of a resource."""


def better(config: lt.HardwareConfig) -> Iterator[tuple[str, lt.HardwareConfig]]:
    """The valid machines with more of one resource."""
    memory = config.memory
    changes = {f"twice the {name}": {f"{name}_buffer_bytes": 2 * getattr(config, f"{name}_buffer_bytes")}
               for name in ("inp", "wgt", "acc", "uop")}  # fmt: skip
    changes["twice the bus"] = {"memory.bus_bits": 2 * memory.bus_bits}
    if memory.latency:
        changes["half the latency"] = {"memory.latency": memory.latency // 2}
    for what, change in changes.items():
        try:
            yield what, config.with_(**change)
        except lt.ConfigError:
            continue


def cycles(output: lt.Tensor, config: lt.HardwareConfig, budget: int) -> int:
    tensors = [*placeholders([output]), output]
    return lt.simulate(lt.build(output, tensors, config, budget=budget, cache=False), timing_only=True).cycles


def pairs(count: int) -> Iterator[tuple[int, lt.Tensor, lt.HardwareConfig]]:
    """The first pairs that qualify as in `distance_to_bound.py`, with their seeds."""
    seed = -1
    while count:
        seed += 1
        random = Random(seed)
        made, config = program(random), machine(random)
        bound = lt.bound(made.last, config)
        traffic = least_moved(made.layers, config) / config.bus_bytes
        if bound.cycles in BOUNDS and max(bound.compute, traffic) <= MOST_TRAFFIC * bound.cycles:
            count -= 1
            yield seed, made.last, config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20, help="the number of pairs")
    parser.add_argument("--budget", type=int, default=1, help="the number of schedules to try for each machine")
    parser.add_argument("--json", action="store_true", help="print a list of {name, value, unit, target, met}")
    given = parser.parse_args()
    figures: list[Figure] = []
    tried = 0
    for seed, output, config in pairs(given.pairs):
        before = cycles(output, config, given.budget)
        more = [(cycles(output, each, given.budget) / before - 1, what) for what, each in better(config)]
        tried += len(more)
        worst, what = max(more, default=(0.0, "nothing"))
        figures.append(at_most(f"seed {seed}, {what}: slower by", worst, "of the cycles", MOST))
    figures.append(Figure("better machines", tried, ""))
    show(figures, as_json=given.json)


if __name__ == "__main__":
    main()
