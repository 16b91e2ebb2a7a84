"""Compile one layer, simulate it, and print the busy cycles and stalls of each unit.

    python examples/layer.py [CONFIG]

It requires no packages besides Lathe.
"""

import sys

import numpy as np

import lathe as lt

cfg = lt.load_config(sys.argv[1] if len(sys.argv) > 1 else "vta")

# The layer: a 3 × 3 convolution of int8 images, its int32 sums requantised to int8 by a shift.
image = lt.placeholder((1, 14, 14, 32), "int8", name="image")
weights = lt.placeholder((32, 3, 3, 32), "int8", name="weights")
output = lt.requantise(lt.conv2d(image, weights, padding=1, name="conv"), 8, name="output")

program = lt.build(output, [image, weights, output], cfg)
rng = np.random.default_rng(0)
inputs = {each.name: rng.integers(-128, 128, each.shape, np.int8) for each in (image, weights)}
result = lt.simulate(program, inputs)
assert np.array_equal(result.outputs["output"], lt.reference(output, inputs))

bound = lt.bound(output, cfg)
print(f"{cfg.name}: {result.cycles:,} cycles, at least {bound.cycles:,} by {bound.limit}; equal to NumPy")
print(f"{result.efficiency:.1%} of the peak of {cfg.multipliers} multipliers")
for unit, counted in result.counters.units.items():
    waits = ", ".join(f"{cycles:,} {cause}" for cause, cycles in counted.stalls.items())
    print(f"{unit:8} busy {counted.busy:,} cycles" + (f", waits: {waits}" if waits else ""))
