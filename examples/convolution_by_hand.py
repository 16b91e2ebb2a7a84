"""Schedule a convolution manually, print its lowering levels, compile it, and simulate it cycle by cycle.

    python examples/convolution_by_hand.py [CONFIG]

It requires no packages besides Lathe.
"""

import sys

import numpy as np

import lathe as lt

cfg = lt.load_config(sys.argv[1] if len(sys.argv) > 1 else "vta")

# The algorithm: an int8 convolution with padding 1, bias, and a shift back to int8.
image = lt.placeholder((1, 28, 28, 32), "int8", name="image")
weights = lt.placeholder((32, 3, 3, 32), "int8", name="weights")
bias = lt.placeholder((32,), "int32", name="bias")
conv = lt.conv2d(image, weights, padding=1, name="conv")
output = lt.requantise(lt.bias_add(conv, bias, name="biased"), 9, name="output")
padded = conv.computation.reads[0].tensor

# The schedule: the output is computed tile by tile; all other stages are computed inside its tiles.
s = lt.create_schedule(output)
accumulated = s.cache_write(output, "acc")  # requantised in the accumulators, then stored
kernel = s.cache_read(weights, "wgt", [conv])
bias_tile = s.cache_read(bias, "acc", [s[accumulated].op.reads[0].tensor])

n, y, x, c = s[output].axis
rows = 7 if cfg.inp_depth >= 512 else 2  # so that rows + 2 of 30 columns fit the inp scratchpad
yo, yi = s[output].split(y, factor=rows)
co, ci = s[output].split(c, factor=cfg.block_out)
s[output].reorder(n, co, yo, yi, x, ci)
for stage in (accumulated, s[accumulated].op.reads[0].tensor, conv):
    s[stage].set_scope("acc")
    s[stage].compute_at(s[output], yo)
ko, ki = s[conv].split("rc", factor=cfg.block_in)
s[conv].reorder(ko, *s[conv].axis, "ry", "rx", ki)
s[padded].set_scope("inp")  # LOADs insert the padding
s[padded].compute_at(s[conv], ko)
s[kernel].compute_at(s[output], co)
s[bias_tile].compute_at(s[output], co)

# Which instruction rule emits which loops; the main loop and its tails have the same pragma.
s[padded].emit_insn(s[padded].axis[0], "dma")
s[kernel].emit_insn(s[kernel].axis[0], "dma")
s[bias_tile].emit_insn(s[bias_tile].axis[0], "dma")
s[conv].emit_insn(s[conv].axis[0], "gemm")
s[output].emit_insn(yi, "dma")

tensors = [image, weights, bias, output]
print(lt.lower(s, tensors, cfg, stage="chunks"))
program = lt.build(s, tensors, cfg, check=True)

generator = np.random.default_rng(0)
inputs = {
    "image": generator.integers(-128, 128, image.shape, np.int8),
    "weights": generator.integers(-128, 128, weights.shape, np.int8),
    "bias": generator.integers(-1000, 1000, bias.shape, np.int32),
}
result = lt.simulate(program, inputs)
assert np.array_equal(result.outputs["output"], lt.reference(output, inputs)), "bits differ from NumPy"
used = result.counters.gemm_operations / result.cycles
print(f"{len(program.instructions)} instructions, {result.cycles} cycles, {used:.0%} of them GEMM, equal to NumPy")
