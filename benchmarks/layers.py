"""ResNet-18's convolutions (He et al., 2015) by the default schedule, against their bound (docs/performance.md).

Its eleven shapes on `vta`, brought to 8 bits by a shift and clipped, and on `lathe16`, by a bias and a factor for each
channel: cycles with a memory latency of 0 and of 64 cycles, and the share of them that the bound is. `all` is the sum
of the bounds by the sum of the cycles. `data` is what passes the border to DRAM, without instructions and micro-ops,
of the ten shapes that TVM's published schedules for VTA are for. Every output is compared with NumPy.

    python benchmarks/layers.py [--json]
"""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from figures import Figure, at_least, at_most, one_core, report
from quantised import CONVOLUTIONS, layer, name_of

import lathe as lt

LEAST = {0: (0.93, 0.97), 64: (0.91, 0.95)}
"""By latency, the share of the bound that is wanted of each, and of all together."""
MOST_DATA = 7.6e6
"""Bytes of data that are wanted at most, of the ten."""
NOT_PUBLISHED = (56, 64, 64, 1, 1)
"""The shape that TVM's tables of ResNet-18 on VTA have not."""
OF_INSTRUCTIONS = ("instructions", "uop")

Shape = tuple[int, int, int, int, int]


class Measured(NamedTuple):
    """What came of a shape on a machine."""

    cycles: int
    bound: lt.Bound
    data: int  # bytes

    @property
    def share(self) -> float:
        """The part of the cycles that the bound is."""
        return self.bound.cycles / self.cycles


def by_shift(shape: Shape) -> tuple[lt.Tensor, list[lt.Tensor], dict[str, Any]]:
    """The output, inputs and output, and values of the inputs: a shift for all channels, and values from 0 on."""
    pixels, channels, filters, kernel, stride = shape
    generator = np.random.default_rng(0)
    data = lt.placeholder((1, pixels, pixels, channels), "int8", name="data")
    weights = lt.placeholder((filters, kernel, kernel, channels), "int8", name="weights")
    conv = lt.conv2d(data, weights, padding=kernel // 2, stride=stride, name="conv")
    output = lt.compute(conv.shape, lambda *i: lt.min(lt.max(conv[i] >> 8, 0), 127).astype("int8"), name="output")
    given = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in (data, weights)}
    return output, [data, weights, output], given


def by_factors(shape: Shape) -> tuple[lt.Tensor, list[lt.Tensor], dict[str, Any]]:
    """The same with a bias and a factor for each channel."""
    output, tensors, given, _ = layer(shape, added=False)
    return output, tensors, given


LAYERS = {"vta": by_shift, "lathe16": by_factors}


def measured(shape: Shape, name: str, latency: int) -> Measured:
    """A shape on the machine of a name, with this latency of the memory."""
    machine = lt.load_config(name).with_(**{"memory.latency": latency})
    output, tensors, given = LAYERS[name](shape)
    result = lt.simulate(lt.build(output, tensors, machine), given, trace=False)
    assert np.array_equal(result.outputs["output"], lt.reference(output, given)), "bits differ from NumPy"
    counters = result.counters
    read = sum(count for memory, count in counters.bytes_read.items() if memory not in OF_INSTRUCTIONS)
    return Measured(result.cycles, lt.bound(output, machine), read + sum(counters.bytes_written.values()))


def figures_of(name: str, latency: int) -> list[Figure]:
    """All figures of a machine with this latency."""
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


def main() -> None:
    one_core()
    figures = [figure for name in LAYERS for latency in LEAST for figure in figures_of(name, latency)]
    report(figures, __doc__ or "")


if __name__ == "__main__":
    main()
