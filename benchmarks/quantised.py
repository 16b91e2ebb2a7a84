"""ResNet-18's convolutions (He et al., 2015) with a bias, a factor per channel and ReLU: one pass over what they sum.

On `lathe16` with RESCALE and an ideal memory (latency 0), by the default schedule: cycles, as built, and with a border
of ones, of which no tap can be left out; of the latter the share in which the matrix core multiplies for the
convolution. `body` is that of the network, its layers built apart: its blocks' convolutions and shortcuts, of which
eight add the shortcut before the ReLU. Every output is compared with NumPy.

    python benchmarks/quantised.py [--json]
"""

import sys
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from figures import Figure, at_least, at_most, one_core, report

import lathe as lt

CONVOLUTIONS = {  # pixels, channels in and out, kernel, stride: how many the body has
    (56, 64, 64, 3, 1): 4,
    (56, 64, 64, 1, 1): 0,
    (56, 64, 128, 3, 2): 1,
    (56, 64, 128, 1, 2): 1,
    (28, 128, 128, 3, 1): 3,
    (28, 128, 256, 3, 2): 1,
    (28, 128, 256, 1, 2): 1,
    (14, 256, 256, 3, 1): 3,
    (14, 256, 512, 3, 2): 1,
    (14, 256, 512, 1, 2): 1,
    (7, 512, 512, 3, 1): 3,
}
ADDED = 2
"""How many convolutions of each size have a shortcut added: the second of each block."""
LEAST = {(3, 1): 0.95, (3, 2): 0.95, (1, 1): 0.77, (1, 2): 0.74}
"""The share of multiplying cycles that is wanted, by kernel and stride."""


def name_of(pixels: int, channels: int, filters: int, kernel: int, stride: int) -> str:
    return f"{pixels}×{pixels}, {channels} to {filters}, {kernel}×{kernel}{' by 2' if stride == 2 else ''}"


def machine_with_rescaling() -> lt.HardwareConfig:
    """`lathe16` with all of RESCALE, where its file does not say so already, and a memory that never waits."""
    machine = lt.load_config("lathe16").with_(**{"memory.latency": 0})
    if "rescale" in machine.extensions:
        return machine
    extensions = (*machine.extensions, "rescale", "rescale_add", "lookup")
    return machine.with_(extensions=extensions, par_buffer_bytes=32768, lut_buffer_bytes=8192)


def layer(
    shape: tuple[int, int, int, int, int], *, added: bool, border: int = 0
) -> tuple[lt.Tensor, list[lt.Tensor], dict[str, Any], int]:
    """The output, inputs and output, values of the inputs, and how many products of values there are."""
    pixels, channels, filters, kernel, stride = shape
    generator = np.random.default_rng(0)
    data = lt.placeholder((1, pixels, pixels, channels), "int8", name="data")
    weights = lt.placeholder((filters, kernel, kernel, channels), "int8", name="weights")
    conv = lt.conv2d(data, weights, padding=kernel // 2, stride=stride, pad_value=border, name="conv")
    scale = generator.uniform(0.5, 2, filters) / (50 * 74 * np.sqrt(channels * kernel * kernel))
    bias = generator.integers(-5000, 5000, filters)
    inputs = [data, weights]
    if added:
        shortcut = lt.placeholder(conv.shape, "int8", name="shortcut")
        parameters = lt.placeholder((filters, 2, 2), "int32", name="parameters")
        output = lt.rescaled_add(conv, shortcut, parameters=parameters, relu=True, name="output")
        values = lt.rescaled_add_parameters((scale, 0.7), (bias, 0))
        inputs += [shortcut]
    else:
        parameters = lt.placeholder((filters, 2), "int32", name="parameters")
        output = lt.requantise(conv, parameters=parameters, relu=True, name="output")
        values = lt.rescale_parameters(scale, bias)
    given = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in inputs}
    products = prod(conv.shape) * kernel * kernel * channels
    return output, [*inputs, parameters, output], {**given, "parameters": values}, products


def measured(
    shape: tuple[int, int, int, int, int], machine: lt.HardwareConfig, *, added: bool, border: int = 0
) -> tuple[int, int]:
    """Cycles, and GEMM operations of the convolution alone, taps in its border included."""
    output, tensors, inputs, products = layer(shape, added=added, border=border)
    result = lt.simulate(lt.build(output, tensors, machine), inputs)
    assert np.array_equal(result.outputs["output"], lt.reference(output, inputs)), "bits differ from NumPy"
    return result.cycles, products // (machine.block_in * machine.block_out * machine.batch)


def main() -> None:
    one_core()
    machine = machine_with_rescaling()
    figures: list[Figure] = []
    totals = {"": 0, ", all taps": 0}
    with_shortcuts = dict.fromkeys(totals, 0)
    work = 0
    for shape, count in CONVOLUTIONS.items():
        name, kind = name_of(*shape), shape[3:]
        for border, how in enumerate(totals):
            taken, operations = measured(shape, machine, added=False, border=border)
            figures.append(Figure(f"{name}{how}", taken, "cycles"))
            totals[how] += count * taken
            with_shortcuts[how] += count * taken
            if kind == (3, 1):
                more, _ = measured(shape, machine, added=True, border=border)
                figures.append(Figure(f"{name}{how}, shortcut added", more, "cycles"))
                with_shortcuts[how] += ADDED * (more - taken)
        figures.append(at_least(f"{name}, all taps: GEMM", operations / taken, "of 1", LEAST[kind]))
        work += count * operations
    for how, taken in totals.items():
        figures.append(Figure(f"body without shortcuts{how}", taken, "cycles"))
        figures.append(at_most(f"body{how}", with_shortcuts[how], "cycles", 6.9e6))
    figures.append(at_least("body without shortcuts, all taps: GEMM", work / totals[", all taps"], "of 1", 0.973))
    report(figures, __doc__ or "")


if __name__ == "__main__":
    main()
