"""Cycles that the extension `gemm_begin` saves in ResNet-18's eleven convolutions (He et al., 2015) on `lathe16`.

Each is measured with and without the extension, with default schedules and an ideal memory (latency 0), for cycles and
the share of them in which the matrix core multiplies. Every output is compared with NumPy.

    python benchmarks/gemm_begin.py [--json]
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from figures import Figure, one_core, report

import lathe as lt

CONVOLUTIONS = [  # pixels, channels in and out, kernel, stride
    (224, 3, 64, 7, 2),
    (56, 64, 64, 3, 1),
    (56, 64, 128, 3, 2),
    (56, 64, 128, 1, 2),
    (28, 128, 128, 3, 1),
    (28, 128, 256, 3, 2),
    (28, 128, 256, 1, 2),
    (14, 256, 256, 3, 1),
    (14, 256, 512, 3, 2),
    (14, 256, 512, 1, 2),
    (7, 512, 512, 3, 1),
]


def name_of(pixels: int, channels: int, filters: int, kernel: int, stride: int) -> str:
    return f"{pixels}×{pixels}, {channels} to {filters}, {kernel}×{kernel}{' by 2' if stride == 2 else ''}"


def convolution(
    pixels: int, channels: int, filters: int, kernel: int, stride: int
) -> tuple[lt.Tensor, list[lt.Tensor]]:
    data = lt.placeholder((1, pixels, pixels, channels), "int8", name="data")
    weights = lt.placeholder((filters, kernel, kernel, channels), "int8", name="weights")
    product = lt.conv2d(data, weights, padding=kernel // 2, stride=stride, name="conv")
    output = lt.requantise(product, 8, name="output")
    return output, [data, weights, output]


def measured(output: lt.Tensor, tensors: list[lt.Tensor], machine: lt.HardwareConfig) -> lt.Result:
    program = lt.build(output, tensors, machine)
    generator = np.random.default_rng(0)
    inputs = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in tensors[:2]}
    result = lt.simulate(program, inputs)
    assert np.array_equal(result.outputs["output"], lt.reference(output, inputs)), "bits differ from NumPy"
    return result


def main() -> None:
    one_core()
    machine = lt.load_config("lathe16").with_(**{"memory.latency": 0})
    without = machine.with_(extensions=tuple(each for each in machine.extensions if each != "gemm_begin"))
    figures: list[Figure] = []
    cycles = np.zeros(2, np.int64)
    work = 0
    for shape in CONVOLUTIONS:
        name = name_of(*shape)
        results = [measured(*convolution(*shape), each) for each in (without, machine)]
        cycles += [each.cycles for each in results]
        work += results[0].counters.gemm_operations
        for way, result in zip(("added", "begun"), results, strict=True):
            figures.append(Figure(f"{name}, {way}", result.cycles, "cycles"))
            figures.append(Figure(f"{name}, {way}: GEMM", result.counters.gemm_operations / result.cycles, "of 1"))
    for way, count in zip(("added", "begun"), cycles.tolist(), strict=True):
        figures.append(Figure(f"all, {way}", count, "cycles"))
        figures.append(Figure(f"all, {way}: GEMM", work / count, "of 1"))
    report(figures, __doc__ or "")


if __name__ == "__main__":
    main()
