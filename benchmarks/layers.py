"""ResNet-18's convolutions (He et al., 2015) with default schedules, relative to their lower bound on cycles.

Its eleven shapes on `vta`, requantised by a shift and clipped, and on `lathe16`, by a bias and a factor per channel:
cycles with a memory latency of 0 and of 64 cycles, and the lower bound (docs/lower-bound.md) divided by them. `all` is
the sum of the bounds divided by the sum of the cycles. `data` is the DRAM traffic, without instructions and micro-ops,
of the ten shapes with published TVM schedules for VTA. Every output is compared with NumPy.

In addition: three shapes on `vta`, latency 0, with schedules of `manual_schedules.py`, and autotuned (24 candidates);
matmuls on `lathe16` (`matmuls.py`); compile times on one core; and published figures, which have no target.

    python benchmarks/layers.py [--json]
"""

import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import matmuls
from compile_time import sixteen_convolutions
from figures import Figure, at_least, at_most, one_core, report, seconds
from manual_schedules import BY_HAND, scheduled
from quantised import CONVOLUTIONS, layer, name_of

import lathe as lt

LEAST = {0: (0.93, 0.97), 64: (0.91, 0.95)}
"""By latency, the target share of the bound for each shape, and for all together."""
MOST_DATA = 7.6e6
"""The target for the DRAM traffic of the ten shapes, in bytes."""
NOT_PUBLISHED = (56, 64, 64, 1, 1)
"""The shape that is not in TVM's tables of ResNet-18 on VTA."""
OF_INSTRUCTIONS = ("instructions", "uop")

OF_TVM = 8.98
"""DRAM traffic of the ten shapes with TVM's tuned schedules for VTA, in MB."""
BUDGET = 24
BEATEN = 1.01
"""The maximum ratio of autotuned cycles to those of manual schedules."""
RUNS = 3

Shape = tuple[int, int, int, int, int]


class Measured(NamedTuple):
    """The measurement of a shape on a machine."""

    cycles: int
    bound: lt.Bound
    data: int  # bytes

    @property
    def share(self) -> float:
        """The lower bound divided by the cycles."""
        return self.bound.cycles / self.cycles


def by_shift(shape: Shape) -> tuple[lt.Tensor, list[lt.Tensor], dict[str, Any]]:
    """The output, all tensors, and input values of a convolution with one shift for all channels, clipped at 0."""
    pixels, channels, filters, kernel, stride = shape
    generator = np.random.default_rng(0)
    data = lt.placeholder((1, pixels, pixels, channels), "int8", name="data")
    weights = lt.placeholder((filters, kernel, kernel, channels), "int8", name="weights")
    conv = lt.conv2d(data, weights, padding=kernel // 2, stride=stride, name="conv")
    output = lt.compute(conv.shape, lambda *i: lt.min(lt.max(conv[i] >> 8, 0), 127).astype("int8"), name="output")
    given = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in (data, weights)}
    return output, [data, weights, output], given


def by_factors(shape: Shape) -> tuple[lt.Tensor, list[lt.Tensor], dict[str, Any]]:
    """The same with a bias and a factor per channel."""
    output, tensors, given, _ = layer(shape, added=False)
    return output, tensors, given


LAYERS = {"vta": by_shift, "lathe16": by_factors}


def measured(shape: Shape, name: str, latency: int) -> Measured:
    """Measure a shape on a shipped machine with a given memory latency."""
    machine = lt.load_config(name).with_(**{"memory.latency": latency})
    output, tensors, given = LAYERS[name](shape)
    result = lt.simulate(lt.build(output, tensors, machine), given, trace=False)
    assert np.array_equal(result.outputs["output"], lt.reference(output, given)), "bits differ from NumPy"
    counters = result.counters
    read = sum(count for memory, count in counters.bytes_read.items() if memory not in OF_INSTRUCTIONS)
    return Measured(result.cycles, lt.bound(output, machine), read + sum(counters.bytes_written.values()))


def figures_of(name: str, latency: int) -> list[Figure]:
    """All figures of a machine with a given memory latency."""
    each, together = LEAST[latency]
    where = f"{name}, latency {latency}"
    found = {shape: measured(shape, name, latency) for shape in CONVOLUTIONS}
    figures: list[Figure] = []
    for shape, one in found.items():
        title = f"{where}: {name_of(*shape)}"
        figures.append(Figure(title, one.cycles, "cycles"))
        figures.append(Figure(f"{title}: bound, by {one.bound.limit}", one.bound.cycles, "cycles"))
        figures.append(at_least(f"{title}: share", one.share, "of 1", each))
    cycles = sum(one.cycles for one in found.values())
    bounds = sum(one.bound.cycles for one in found.values())
    figures.append(Figure(f"{where}: all", cycles, "cycles"))
    figures.append(at_least(f"{where}: all: share", bounds / cycles, "of 1", together))
    ten = [one for shape, one in found.items() if shape != NOT_PUBLISHED]
    figures.append(at_most(f"{where}: data of ten", sum(one.data for one in ten) / 1e6, "MB", MOST_DATA / 1e6))
    figures.append(Figure(f"{where}: data of ten, once", sum(one.bound.bytes for one in ten) / 1e6, "MB"))
    return figures


def manual_schedule_figures() -> list[Figure]:
    """Three shapes with manual, default and autotuned schedules."""
    config = lt.load_config("vta").with_(**{"memory.latency": 0})
    figures = []
    for shape, tiles in BY_HAND.items():
        output, tensors, _ = by_shift(shape)
        by_hand = lt.simulate(lt.build(scheduled(output, tiles), tensors, config), timing_only=True).cycles
        found = lt.autoschedule(output, config, budget=BUDGET, cache=False)
        title = f"vta, latency 0: {name_of(*shape)}"
        figures.append(Figure(f"{title}: by hand", by_hand, "cycles"))
        figures.append(Figure(f"{title}: default", found.tried[0].cycles or 0, "cycles"))
        figures.append(at_most(f"{title}: of {BUDGET} candidates", found.cycles, "cycles", BEATEN * by_hand))
    return figures


def matmul_figures() -> list[Figure]:
    """Square matmuls, and sixteen small ones."""
    figures = []
    for size in matmuls.SIZES:
        taken, share = matmuls.square(size)
        figures.append(Figure(f"lathe16, latency 0: product of {size}", taken, "cycles"))
        figures.append(at_least(f"lathe16, latency 0: product of {size}: peak", share, "of 1", matmuls.LEAST_OF_PEAK))
    title = "lathe16, latency 0, bus 128: 16 products of 16"
    figures.append(at_most(title, matmuls.sixteen(), "cycles", matmuls.MOST_CYCLES))
    figures += [Figure(f"published: {title}", each, "cycles") for each in matmuls.PUBLISHED]
    return figures


def build_figures() -> list[Figure]:
    """Compile times in seconds on `vta`; "one convolution" is 56×56, 64 to 64, 3×3."""
    config = lt.load_config("vta")
    output, tensors, _ = by_shift((56, 64, 64, 3, 1))
    known = scheduled(output, BY_HAND[56, 64, 64, 3, 1])
    with tempfile.TemporaryDirectory() as folder:
        cache = lt.ScheduleCache(Path(folder) / "schedules.db")
        searched = seconds(lambda: lt.build(output, tensors, config, budget=8, cache=False), RUNS)
        lt.build(output, tensors, config, budget=8, cache=cache)
        cached = seconds(lambda: lt.build(output, tensors, config, budget=8, cache=cache), RUNS)
    last = sixteen_convolutions()
    default = seconds(lambda: lt.build(output, tensors, config), RUNS)
    given = seconds(lambda: lt.build(known, tensors, config), RUNS)
    network = [*lt.frontend.placeholders([last]), last]
    return [
        at_most("build: one convolution, default", default, "s", 0.8),
        at_most("build: one convolution, 8 candidates", searched, "s", 3),
        at_most("build: one convolution, from the cache", cached, "s", 0.03),
        at_most("build: one convolution, schedule given", given, "s", 0.1),
        Figure("published: the same by VTA's C++ compiler", 0.045, "s"),
        at_most(
            "build: sixteen convolutions and four pools at 224×224",
            seconds(lambda: lt.build(last, network, config), 1),
            "s",
            10,
        ),
    ]


def main() -> None:
    one_core()
    figures = [figure for name in LAYERS for latency in LEAST for figure in figures_of(name, latency)]
    figures.append(Figure("published: vta, data of ten, TVM's tuned schedules", OF_TVM, "MB"))
    figures += [*manual_schedule_figures(), *matmul_figures(), *build_figures()]
    report(figures, __doc__ or "")


if __name__ == "__main__":
    main()
