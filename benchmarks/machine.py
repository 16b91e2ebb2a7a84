"""The price list of the machine's extensions: what each saves, and what it costs in an FPGA.

Cycles are those of the convolutions of ResNet-18 (He et al., 2015) and the share of them in which the matrix core
multiplies, on `vta` with an ideal memory (latency 0), as it is, with each extension alone, and with all of them;
default schedules, every output compared with NumPy. Cells and clock are those of `tiny`, as it is and with each
extension alone, on an LFE5U-45F of speed grade 6, the clock being the median of three placements. They take an hour
the first time, and are kept in the cache (extra `fit`).

    python benchmarks/machine.py [--json]
"""

import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))

from begin import CONVOLUTIONS, convolution, measured, name_of
from figures import Figure, at_least, one_core, report

import lathe as lt
from lathe.configs.extensions import EXTENSIONS
from lathe.rtl.fit import fit

# Those with 64 channels or more, and the projection of 56×56 that keeps its size.
SHAPES = [(56, 64, 64, 1, 1), *(shape for shape in CONVOLUTIONS if shape[1] >= 64)]
SEEDS = (1, 2, 3)
# What the clock of `tiny` must be, in MHz.
CLOCK = 70


def variants(name: str) -> dict[str, lt.HardwareConfig]:
    """A machine as it is, and with each extension alone."""
    plain = lt.load_config(name)
    return {"plain": plain} | {each: plain.with_(extensions=(each,)) for each in EXTENSIONS}


def cycles() -> list[Figure]:
    machines = variants("vta")
    machines["all"] = machines["plain"].with_(extensions=tuple(EXTENSIONS))
    figures = []
    for shape in SHAPES:
        name = name_of(*shape)
        plain = 0
        for which, machine in machines.items():
            result = measured(*convolution(*shape), machine.with_(**{"memory.latency": 0}))
            plain = plain or result.cycles
            share = result.counters.gemm_operations / result.cycles
            if which in ("plain", "all"):
                figures.append(Figure(f"{name}, {which}", result.cycles, "cycles"))
                figures.append(Figure(f"{name}, {which}: GEMM", share, "of 1"))
            else:
                figures.append(Figure(f"{name}, saved by {which}", plain - result.cycles, "cycles"))
    return figures


def cells() -> list[Figure]:
    figures = []
    for which, machine in variants("tiny").items():
        placed = [fit(machine, "ecp5-45k", 6, seed) for seed in SEEDS]
        for kind, resource in placed[0].resources.items():
            figures.append(Figure(f"tiny, {which}: {kind.replace('_', ' ')}", resource.used, "cells"))
        clock = median(each.megahertz for each in placed)
        figures.append(at_least(f"tiny, {which}: clock", clock, "MHz", CLOCK))
    return figures


def main() -> None:
    one_core()
    report([*cycles(), *cells()], __doc__ or "")


if __name__ == "__main__":
    main()
