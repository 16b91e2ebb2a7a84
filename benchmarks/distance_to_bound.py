"""Cycles of the default schedule relative to the lower bound (docs/lower-bound.md), for random programs and machines.

Programs: convolutions with any stride, dilation and groups, depthwise and transposed ones, matmuls, pooling, additions,
chains of up to four with residuals, in odd sizes, for 1 to 8 images. Machines: a batch of 1 to 4, blocks of 4 to 32,
small to large scratchpads, several buses, latencies of 0 to 200. A pair qualifies if its lower bound is between 10,000
and 400,000 cycles, and at most 1.25 times as high with the DRAM traffic of the best tilings into half of each
scratchpad (`random_pairs.py`). Outputs are compared with NumPy; `share` is the lower bound divided by cycles. With
`--budget` schedules are autotuned with that many candidates. `--others` is a number of pairs that do not qualify: they
must be correct, and are also compared with the lower bound that includes the sizes of scratchpads.

    python benchmarks/distance_to_bound.py [--pairs N] [--others N] [--first SEED] [--worst N] [--rtl N] [--budget N]
    [--json]
"""

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from figures import Figure, at_least, show
from random_pairs import least_moved, machine, program

import lathe as lt
from lathe.frontend import placeholders

BOUNDS = range(10_000, 400_001)
MOST_TRAFFIC = 1.25


@dataclass(frozen=True)
class Pair:
    """The measurement of a pair; ``sized`` is the lower bound that includes the sizes of scratchpads."""

    seed: int
    layers: str
    machine: str
    bound: int
    sized: int
    limit: str
    cycles: int
    seconds: float
    counts: bool

    @property
    def share(self) -> float:
        """The lower bound divided by the cycles."""
        return self.bound / self.cycles if self.cycles else 0.0


def measured(seed: int, hardware: bool, budget: int, *, counting: bool, others: bool) -> Pair | None:
    """Build and run a pair; None if it qualifies but not ``counting``, or does not qualify but not ``others``.

    Raises AssertionError if an output is wrong.
    """
    random = Random(seed)
    made, config = program(random), machine(random)
    output = made.last
    bound = lt.bound(output, config)
    traffic = least_moved(made.layers, config) / config.bus_bytes
    counts = bound.cycles in BOUNDS and max(bound.compute, traffic) <= MOST_TRAFFIC * bound.cycles
    if not (counting if counts else others):
        return None
    inputs = list(placeholders([output]))
    start = time.perf_counter()
    chosen = output if budget == 1 else lt.autoschedule(output, config, budget=budget, cache=False)
    program_ = lt.build(chosen, [*inputs, output], config)
    seconds = time.perf_counter() - start
    generator = np.random.default_rng(seed)
    given = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in inputs}
    result = lt.simulate(program_, given)
    assert np.array_equal(result.outputs[output.name], lt.reference(output, given)), f"seed {seed}: outputs differ"
    if hardware:
        rtl = lt.simulate(program_, given, engine="verilator")
        assert np.array_equal(rtl.outputs[output.name], result.outputs[output.name]), f"seed {seed}: outputs differ"
        assert rtl.cycles == result.cycles, f"seed {seed}: {rtl.cycles} cycles, not {result.cycles}"
    depths = f"{config.inp_depth}/{config.wgt_depth}/{config.acc_depth}"
    of_machine = f"{config.batch}×{config.block_in}×{config.block_out} {depths} bus {8 * config.bus_bytes}"
    of_machine += f" latency {config.memory.latency}"
    shapes = f"{made.layers[0].data}: " + ", ".join(
        f"{what} → {layer.result[3]}" for what, layer in zip(made.what, made.layers, strict=True)
    )
    took = round(seconds, 2)
    return Pair(seed, shapes, of_machine, bound.cycles, bound.sized, bound.limit, result.cycles, took, counts)


def figures(pairs: list[Pair]) -> list[Figure]:
    """The minimum and median share of all pairs, and the share of their total cycles."""
    shares = sorted(pair.share for pair in pairs)
    weighted = sum(pair.bound for pair in pairs) / sum(pair.cycles for pair in pairs)
    return [
        Figure("pairs", len(pairs), ""),
        at_least("least share", shares[0], "of the bound", 0.5),
        at_least("median share", median(shares), "of the bound", 0.95),
        at_least("share of all cycles", weighted, "of the bound", 0.92),
        Figure("pairs below half", sum(share < 0.5 for share in shares), "", "0", shares[0] >= 0.5),
    ]


def figures_of_others(pairs: list[Pair]) -> list[Figure]:
    """The shares of pairs that do not qualify, for the lower bounds with and without the sizes of scratchpads."""
    cycles = sum(pair.cycles for pair in pairs)
    return [
        Figure("other pairs, equal to NumPy", len(pairs), ""),
        Figure("others: share of all cycles", sum(pair.bound for pair in pairs) / cycles, "of the bound"),
        Figure("others: share of all cycles", sum(pair.sized for pair in pairs) / cycles, "of that with sizes"),
        Figure("others: median share", median(pair.sized / pair.cycles for pair in pairs), "of that with sizes"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=300, help="the number of pairs")
    parser.add_argument("--others", type=int, default=0, help="the number of additional pairs that do not qualify")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--worst", type=int, default=10, help="the number of worst pairs to print")
    parser.add_argument("--rtl", type=int, default=0, help="the number of pairs to run on the RTL, too")
    parser.add_argument("--budget", type=int, default=1, help="candidates of the autotuner; 1 is the default schedule")
    parser.add_argument("--json", action="store_true", help="print a list of {name, value, unit, target, met}")
    given = parser.parse_args()
    pairs: list[Pair] = []
    others: list[Pair] = []
    seed = given.first
    while len(pairs) < given.pairs or len(others) < given.others:
        needed = {"counting": len(pairs) < given.pairs, "others": len(others) < given.others}
        try:
            pair = measured(seed, needed["counting"] and len(pairs) < given.rtl, given.budget, **needed)
        except lt.LatheError as error:
            print(f"seed {seed} fails to compile: {error}", file=sys.stderr)
            pair = None
        if pair is not None:
            (pairs if pair.counts else others).append(pair)
        seed += 1
    show((figures(pairs) if pairs else []) + (figures_of_others(others) if others else []), as_json=given.json)
    if given.json:
        return
    for pair in sorted(pairs, key=lambda pair: pair.share)[: given.worst]:
        print(
            f"{pair.share:.3f} seed {pair.seed}: {pair.layers}; {pair.machine}: {pair.cycles:,} of {pair.bound:,} "
            f"({pair.limit}), built in {pair.seconds} s"
        )


if __name__ == "__main__":
    main()
