"""ResNet-18's convolutions (He et al., 2015) with a bias, a factor per channel and ReLU, fused by RESCALE.

On `lathe16` with RESCALE and an ideal memory (latency 0), with the default schedule: cycles with zero padding, and with
a padding of ones, of which no tap can be skipped; for the latter also the share in which the matrix core multiplies for
the convolution. `body` is the sum over the network's blocks, compiled layer by layer: their convolutions and shortcuts,
of which eight are added before the ReLU. Every output is compared with NumPy.

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

CONVOLUTIONS = {  # pixels, channels in and out, kernel, stride: number in the body
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
"""The number of convolutions of each size with a shortcut: the second of each block."""
LEAST = {(3, 1): 0.95, (3, 2): 0.95, (1, 1): 0.77, (1, 2): 0.74}
"""The target share of multiplying cycles, by kernel and stride."""


def name_of(pixels: int, channels: int, filters: int, kernel: int, stride: int) -> str:
    return f"{pixels}×{pixels}, {channels} to {filters}, {kernel}×{kernel}{' by 2' if stride == 2 else ''}"


def machine_with_rescaling() -> lt.HardwareConfig:
    """`lathe16` with an ideal memory, and the RESCALE extensions added if missing."""
    machine = lt.load_config("lathe16").with_(**{"memory.latency": 0})
    if "rescale" in machine.extensions:
        return machine
    extensions = (*machine.extensions, "rescale", "rescale_add", "lookup")
    return machine.with_(extensions=extensions, par_buffer_bytes=32768, lut_buffer_bytes=8192)


def layer(
    shape: tuple[int, int, int, int, int], *, added: bool, border: int = 0
) -> tuple[lt.Tensor, list[lt.Tensor], dict[str, Any], int]:
    """The output, all tensors, values of the inputs, and the number of MACs."""
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
    macs = prod(conv.shape) * kernel * kernel * channels
    return output, [*inputs, parameters, output], {**given, "parameters": values}, macs


def measured(
    shape: tuple[int, int, int, int, int], machine: lt.HardwareConfig, *, added: bool, border: int = 0
) -> tuple[int, int]:
    """Cycles, and GEMM operations of the convolution, including taps in the padding."""
    output, tensors, inputs, macs = layer(shape, added=added, border=border)
    result = lt.simulate(lt.build(output, tensors, machine), inputs)
    assert np.array_equal(result.outputs["output"], lt.reference(output, inputs)), "bits differ from NumPy"
    return result.cycles, macs // (machine.block_in * machine.block_out * machine.batch)


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
