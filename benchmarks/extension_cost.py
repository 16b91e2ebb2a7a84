"""The price list of the machine's extensions: what each saves, and what it costs in an FPGA.

Cycles are those of the convolutions of ResNet-18 (He et al., 2015) and the share of them in which the matrix core
multiplies, on `vta` with an ideal memory (latency 0), as it is, with each extension alone, and with all of them;
default schedules, every output compared with NumPy. A result is brought to 8 bits with one shift for all channels;
where there is `rescale`, with a bias and a factor for each channel and ReLU, which is more, and where there is
`rescale_add`, with a shortcut added, which is compared with a shift, an addition and ReLU on the ALU. The same is told
of a depthwise 3×3 over 112×112×96. `lookup` saves nothing of these; it is told what a table for 56×56×64 values takes,
which no machine without it does.

Cells and clock are those of `tiny`, as it is and with each extension alone (and `rescale`, where that needs it), on an
LFE5U-45F of speed grade 6, the clock being the median of three placements. They take two hours the first time, and are
kept in the cache (extra `fit`).

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
# What the clock of `tiny` must be, in MHz.
CLOCK = 70
ELEMENTS = 128
"""Elements of parameters, at most: as many channels as ResNet-18 has, with a pair of rows for each."""


def variant(plain: lt.HardwareConfig, *names: str) -> lt.HardwareConfig:
    """A machine with some extensions, what these need, and an ideal memory."""
    needed = {RESCALE} if {RESCALE_ADD, LOOKUP} & set(names) else set()
    par = min(ELEMENTS, plain.wgt_depth) * plain.par_element_bytes if needed or RESCALE in names else 0
    lut = TABLE_ELEMENTS * plain.lut_element_bytes if LOOKUP in names else 0
    chosen = tuple(each for each in EXTENSIONS if each in needed | set(names))
    return plain.with_(extensions=chosen, par_buffer_bytes=par, lut_buffer_bytes=lut)


def only(plain: lt.HardwareConfig, which: str) -> lt.HardwareConfig:
    """The plain machine, or one with a single extension."""
    return plain if which == "plain" else variant(plain, which)


def shortcut_by_shift(shape: tuple[int, int, int, int, int]) -> tuple[lt.Tensor, list[lt.Tensor]]:
    """A convolution, shifted, with a shortcut added and ReLU, by the ALU."""
    output, (data, weights, _) = convolution(*shape)
    conv = output.computation.reads[0].tensor
    shortcut = lt.placeholder(conv.shape, "int8", name="shortcut")

    def element(*i: Axis) -> Expr:
        total = ((conv[i] + 128) >> 8) + shortcut[i].astype("int32")
        return lt.max(lt.min(total, 127), 0).astype("int8")

    added = lt.compute(conv.shape, element, "output")
    return added, [data, weights, shortcut, added]


BY_SHIFT = ("plain", *(each for each in EXTENSIONS if each not in (RESCALE, RESCALE_ADD, LOOKUP)))
"""The plain machine, and extensions with which a result is brought to 8 bits as without."""
PER_CHANNEL = {RESCALE: (RESCALE,), "all": tuple(EXTENSIONS)}
"""Machines with a bias and a factor for each channel."""
DEPTHWISE = (112, 96, 1)


def run(output: lt.Tensor, tensors: list[lt.Tensor], machine: lt.HardwareConfig, inputs: dict[str, Any]) -> lt.Result:
    result = lt.simulate(lt.build(output, tensors, machine), inputs)
    assert np.array_equal(result.outputs[output.name], lt.reference(output, inputs)), "bits differ from NumPy"
    return result


def random_bytes(tensors: list[lt.Tensor]) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    return {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in tensors}


def savings(name: str, taken: dict[str, lt.Result]) -> list[Figure]:
    """What each machine takes or saves of a layer."""
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
