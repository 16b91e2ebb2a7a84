"""Speed of compilation and simulation for a 56×56×64→64 convolution (3×3, padding 1) on `vta`.

    python benchmarks/end_to_end.py [--json]

It requires no packages besides Lathe.
"""

import resource
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from figures import Figure, at_least, at_most, one_core, report, seconds

import lathe as lt

# VTA's functional simulator (C++), on one core of a comparable computer: tile operations per second on this layer.
VTA_FSIM_OPERATIONS = 27e6
VTA_COMPILER_SECONDS = 0.045


def convolution() -> tuple[lt.Tensor, list[lt.Tensor]]:
    data = lt.placeholder((1, 56, 56, 64), "int8", name="data")
    weights = lt.placeholder((64, 3, 3, 64), "int8", name="weights")
    output = lt.requantise(lt.conv2d(data, weights, padding=1, name="conv"), 8, name="output")
    return output, [data, weights, output]


def by_hand(output: lt.Tensor) -> lt.Schedule:
    """A manual schedule: tiles of 7 rows, all output channels, one block of input channels at a time."""
    data_read, weights_read = output.computation.reads[0].tensor.computation.reads
    product = output.computation.reads[0].tensor
    padded, weights = data_read.tensor, weights_read.tensor
    s = lt.create_schedule(output)
    accumulated = s.cache_write(output, "acc")
    kernel = s.cache_read(weights, "wgt", [product])
    n, y, x, c = s[output].axis
    yo, yi = s[output].split(y, factor=7)
    for stage in (accumulated, product):
        s[stage].set_scope("acc")
        s[stage].compute_at(s[output], yo)
    ko, ki = s[product].split("rc", factor=16)
    s[product].reorder(ko, *s[product].axis, "ry", "rx", ki)
    s[padded].set_scope("inp")
    s[padded].compute_at(s[product], ko)
    s[kernel].compute_at(s[output], n)
    return s


def main() -> None:
    one_core()
    config = lt.load_config("vta")
    output, tensors = convolution()
    build = seconds(lambda: lt.build(by_hand(output), tensors, config))
    default = seconds(lambda: lt.build(output, tensors, config), runs=3)
    program = lt.build(by_hand(output), tensors, config)
    generator = np.random.default_rng(0)
    inputs = {tensor.name: generator.integers(-128, 128, tensor.shape, np.int8) for tensor in tensors[:2]}
    result = lt.simulate(program, inputs)
    assert np.array_equal(result.outputs["output"], lt.reference(output, inputs)), "bits differ from NumPy"
    with_data = seconds(lambda: lt.simulate(program, inputs), runs=9)
    timing = seconds(lambda: lt.simulate(program, timing_only=True), runs=9)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    operations = result.counters.gemm_operations
    report(
        [
            Figure("cycles of the layer", result.cycles, "cycles"),
            Figure("GEMM operations", operations, "operations"),
            Figure("GEMM share of cycles", operations / result.cycles, "of 1"),
            at_least("simulation with data", result.cycles / with_data / 1e6, "million cycles/s", 10),
            at_least("simulation, timing only", result.cycles / timing / 1e6, "million cycles/s", 50),
            at_least("tile operations vs VTA's fsim", operations / with_data / VTA_FSIM_OPERATIONS, "times", 1),
            at_most("build, given schedule", build, "s", 1),
            Figure("build, given schedule vs VTA's", build / VTA_COMPILER_SECONDS, "times"),
            Figure("build, default schedule", default, "s"),
            at_most("peak memory", memory, "MB", 500),
        ],
        __doc__ or "",
    )


if __name__ == "__main__":
    main()
