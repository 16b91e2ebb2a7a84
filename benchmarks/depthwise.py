"""Depthwise 3×3 convolutions of MobileNet v2 (Sandler et al., 2018) on `lathe16`: cycles, GEMM operations and bytes.

Each is built with the default schedule for an ideal memory (latency 0), with biases and requantised per channel by the
instruction RESCALE, and compared with NumPy. With one shift for all channels, the ALU requantises in six operations.

    python benchmarks/depthwise.py [--json]
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from figures import Figure, at_most, one_core, report

import lathe as lt

LAYERS = [  # pixels, channels, stride
    (112, 96, 1),
    (56, 144, 2),
    (14, 576, 1),
    (7, 960, 1),
]
MOST_CYCLES = {(112, 96, 1): 770_000}


def layer(pixels: int, channels: int, stride: int, per_channel: bool) -> tuple[lt.Tensor, list[lt.Tensor]]:
    data = lt.placeholder((1, pixels, pixels, channels), "int8", name="data")
    weight = lt.placeholder((3, 3, channels), "int8", name="weight")
    sums = lt.depthwise_conv2d(data, weight, padding=1, stride=stride, name="depthwise")
    if per_channel:
        scales = lt.placeholder((channels, 2), "int32", name="scales")
        output = lt.requantise(sums, parameters=scales, relu=True, name="output")
    else:
        scales = lt.placeholder((channels,), "int32", name="scales")
        output = lt.requantise(lt.bias_add(sums, scales, name="biased"), 8, low=0, name="output")
    return output, [data, weight, scales, output]


def measured(output: lt.Tensor, tensors: list[lt.Tensor], machine: lt.HardwareConfig) -> lt.Result:
    data, weight, scales, _ = tensors
    program = lt.build(output, tensors, machine)
    generator = np.random.default_rng(0)
    inputs = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in (data, weight)}
    channels = scales.shape[0]
    inputs["scales"] = biases = generator.integers(-1000, 1000, channels, np.int32)
    if scales.ndim == 2:
        inputs["scales"] = lt.rescale_parameters(generator.uniform(0.0005, 0.01, channels), biases)
    result = lt.simulate(program, inputs)
    assert np.array_equal(result.outputs["output"], lt.reference(output, inputs)), "bits differ from NumPy"
    return result


def with_rescale(machine: lt.HardwareConfig) -> lt.HardwareConfig:
    """The machine, with the extension rescale added if missing."""
    if "rescale" in machine.extensions:
        return machine
    return machine.with_(extensions=(*machine.extensions, "rescale"), par_buffer_bytes=32768)


def main() -> None:
    one_core()
    machine = with_rescale(lt.load_config("lathe16")).with_(**{"memory.latency": 0})
    figures: list[Figure] = []
    for shape in LAYERS:
        pixels, channels, stride = shape
        name = f"{pixels}×{pixels}×{channels}{' by 2' if stride == 2 else ''}"
        result = measured(*layer(*shape, per_channel=True), machine)
        counters = result.counters
        cycles = Figure(name, result.cycles, "cycles")
        if shape in MOST_CYCLES:
            cycles = at_most(name, result.cycles, "cycles", MOST_CYCLES[shape])
        figures += [
            cycles,
            Figure(f"{name}: of these, matrix core", counters.gemm_operations, "cycles"),
            Figure(f"{name}: weights read", counters.bytes_read["wgt"], "bytes"),
            Figure(f"{name}: all read", sum(counters.bytes_read.values()), "bytes"),
            Figure(f"{name}: written", sum(counters.bytes_written.values()), "bytes"),
            Figure(f"{name}: by a shift", measured(*layer(*shape, per_channel=False), machine).cycles, "cycles"),
        ]
    report(figures, __doc__ or "")


if __name__ == "__main__":
    main()
