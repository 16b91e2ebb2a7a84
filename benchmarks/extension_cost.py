"""The benefit of each extension of the machine in cycles, and its cost on an FPGA.

Cycles, and the share of them in which the matrix core multiplies, are those of ResNet-18's convolutions (He et al.,
2015) on `vta` with an ideal memory (latency 0): the plain machine, each extension alone, and all of them; with default
schedules, every output compared with NumPy. Results are requantised with one shift for all channels; with `rescale`,
with a bias and a factor per channel and ReLU; with `rescale_add`, with a shortcut, which is compared with a shift, an
addition and ReLU on the ALU. The same is measured for a depthwise 3×3 over 112×112×96. `lookup` does not speed these
up; its figure is the cycles of a table for 56×56×64 values, which is impossible without it.

Cells and clock are those of `tiny`, plain and with each extension alone (and `rescale`, if required), on an LFE5U-45F
of speed grade 6; the clock is the median of three placements. They take two hours the first time, and are cached
(extra `fit`).

    python benchmarks/extension_cost.py [--json] [--cycles]
"""

import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import depthwise
from figures import Figure, at_least, one_core, report
from gemm_begin import convolution, measured, name_of
from quantised import CONVOLUTIONS, layer

import lathe as lt
from lathe.configs.encoding import LOOKUP, RESCALE, RESCALE_ADD, TABLE_ELEMENTS
from lathe.configs.extensions import EXTENSIONS
from lathe.frontend.expr.expr_base import Expr
from lathe.frontend.expr.nodes import Axis
from lathe.rtl.fit import fit

SEEDS = (1, 2, 3)
# The target clock of `tiny`, in MHz.
CLOCK = 70
ELEMENTS = 128
"""Vectors of parameters, at most: enough for all channels of ResNet-18, two rows each."""


def variant(plain: lt.HardwareConfig, *names: str) -> lt.HardwareConfig:
    """A machine with some extensions, and the extensions and scratchpads that they require."""
    needed = {RESCALE} if {RESCALE_ADD, LOOKUP} & set(names) else set()
    par = min(ELEMENTS, plain.wgt_depth) * plain.par_element_bytes if needed or RESCALE in names else 0
    lut = TABLE_ELEMENTS * plain.lut_element_bytes if LOOKUP in names else 0
    chosen = tuple(each for each in EXTENSIONS if each in needed | set(names))
    return plain.with_(extensions=chosen, par_buffer_bytes=par, lut_buffer_bytes=lut)


def only(plain: lt.HardwareConfig, which: str) -> lt.HardwareConfig:
    """The plain machine, or the machine with a single extension."""
    return plain if which == "plain" else variant(plain, which)


def shortcut_by_shift(shape: tuple[int, int, int, int, int]) -> tuple[lt.Tensor, list[lt.Tensor]]:
    """A convolution with a shift, the addition of a shortcut, and ReLU, on the ALU."""
    output, (data, weights, _) = convolution(*shape)
    conv = output.computation.reads[0].tensor
    shortcut = lt.placeholder(conv.shape, "int8", name="shortcut")

    def element(*i: Axis) -> Expr:
        total = ((conv[i] + 128) >> 8) + shortcut[i].astype("int32")
        return lt.max(lt.min(total, 127), 0).astype("int8")

    added = lt.compute(conv.shape, element, "output")
    return added, [data, weights, shortcut, added]


BY_SHIFT = ("plain", *(each for each in EXTENSIONS if each not in (RESCALE, RESCALE_ADD, LOOKUP)))
"""The plain machine, and extensions that do not change the requantisation."""
PER_CHANNEL = {RESCALE: (RESCALE,), "all": tuple(EXTENSIONS)}
"""Machines that requantise with a bias and a factor per channel."""
DEPTHWISE = (112, 96, 1)


def run(output: lt.Tensor, tensors: list[lt.Tensor], machine: lt.HardwareConfig, inputs: dict[str, Any]) -> lt.Result:
    result = lt.simulate(lt.build(output, tensors, machine), inputs)
    assert np.array_equal(result.outputs[output.name], lt.reference(output, inputs)), "bits differ from NumPy"
    return result


def random_bytes(tensors: list[lt.Tensor]) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    return {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in tensors}


def savings(name: str, taken: dict[str, lt.Result]) -> list[Figure]:
    """The cycles of a layer on the plain and full machine, and the cycles that each extension saves."""
    figures = []
    for which, result in taken.items():
        if which in ("plain", "all"):
            share = result.counters.gemm_operations / result.cycles
            figures.append(Figure(f"{name}, {which}", result.cycles, "cycles"))
            figures.append(Figure(f"{name}, {which}: GEMM", share, "of 1"))
        else:
            saved = taken["plain"].cycles - result.cycles
            figures.append(Figure(f"{name}, saved by {which}", saved, "cycles"))
    return figures


def cycles() -> list[Figure]:
    plain = lt.load_config("vta").with_(**{"memory.latency": 0})
    figures = []
    for shape in CONVOLUTIONS:
        name = name_of(*shape)
        taken = {which: measured(*convolution(*shape), only(plain, which)) for which in BY_SHIFT}
        for which, names in PER_CHANNEL.items():
            output, tensors, inputs, _ = layer(shape, added=False)
            taken[which] = run(output, tensors, variant(plain, *names), inputs)
        figures += savings(name, taken)
        if shape[3:] == (3, 1):
            output, tensors = shortcut_by_shift(shape)
            before = run(output, tensors, plain, random_bytes(tensors[:3])).cycles
            output, tensors, inputs, _ = layer(shape, added=True)
            after = run(output, tensors, variant(plain, RESCALE_ADD), inputs).cycles
            figures.append(Figure(f"{name} with a shortcut, plain", before, "cycles"))
            figures.append(Figure(f"{name} with a shortcut, saved by {RESCALE_ADD}", before - after, "cycles"))
    pixels, channels, _ = DEPTHWISE
    by_shift, per_channel = (depthwise.layer(*DEPTHWISE, per_channel=each) for each in (False, True))
    taken = {which: depthwise.measured(*by_shift, only(plain, which)) for which in BY_SHIFT}
    for which, names in PER_CHANNEL.items():
        taken[which] = depthwise.measured(*per_channel, variant(plain, *names))
    figures += savings(f"{pixels}×{pixels}×{channels}, depthwise", taken)
    data, table = lt.placeholder((56, 56, 64), "int8", name="data"), lt.placeholder((256,), "int8", name="table")
    output = lt.lookup(data, table, name="output")
    looked_up = run(output, [data, table, output], variant(plain, LOOKUP), random_bytes([data, table]))
    figures.append(Figure("56×56×64 values in a table", looked_up.cycles, "cycles"))
    return figures


def cells() -> list[Figure]:
    plain = lt.load_config("tiny")
    figures = []
    for which in ("plain", *EXTENSIONS):
        machine = plain if which == "plain" else variant(plain, which)
        placed = [fit(machine, "ecp5-45k", 6, seed) for seed in SEEDS]
        for kind, resource in placed[0].resources.items():
            figures.append(Figure(f"tiny, {which}: {kind.replace('_', ' ')}", resource.used, "cells"))
        clock = median(each.megahertz for each in placed)
        figures.append(at_least(f"tiny, {which}: clock", clock, "MHz", CLOCK))
    return figures


def main() -> None:
    one_core()
    only_cycles = "--cycles" in sys.argv
    if only_cycles:
        sys.argv.remove("--cycles")
    report([*cycles(), *([] if only_cycles else cells())], __doc__ or "")


if __name__ == "__main__":
    main()
