"""Schedule a convolution by hand, look at every level, compile it and run it cycle by cycle.

    python examples/convolution_by_hand.py [CONFIG]

Without arguments it needs nothing but Lathe.
"""

import sys

import numpy as np

import lathe as lt

cfg = lt.load_config(sys.argv[1] if len(sys.argv) > 1 else "vta")

# The algorithm: an int8 convolution with padding 1, bias, and a shift back to int8.
image = lt.placeholder((1, 28, 28, 32), "int8", name="image")
weights = lt.placeholder((32, 3, 3, 32), "int8", name="weights")
bias = lt.placeholder((32,), "int32", name="bias")
product = lt.conv2d(image, weights, padding=1, name="conv")
output = lt.requantise(lt.bias_add(product, bias, name="biased"), 9, name="output")
padded = product.computation.reads[0].tensor

# The schedule: the output is made tile by tile; everything else is computed where a tile needs it.
s = lt.create_schedule(output)
accumulated = s.cache_write(output, "acc")  # requantised in the accumulators, then stored
kernel = s.cache_read(weights, "wgt", [product])
bias_tile = s.cache_read(bias, "acc", [s[accumulated].op.reads[0].tensor])

n, y, x, c = s[output].axis
rows = 7 if cfg.inp_depth >= 512 else 2  # what the input scratchpad holds of 30 columns, with two rows more
yo, yi = s[output].split(y, factor=rows)
co, ci = s[output].split(c, factor=cfg.block_out)
s[output].reorder(n, co, yo, yi, x, ci)
for stage in (accumulated, s[accumulated].op.reads[0].tensor, product):
    s[stage].set_scope("acc")
    s[stage].compute_at(s[output], yo)
ko, ki = s[product].split("rc", factor=cfg.block_in)
s[product].reorder(ko, *s[product].axis, "ry", "rx", ki)
s[padded].set_scope("inp")  # the DMA pads while it loads
s[padded].compute_at(s[product], ko)
s[kernel].compute_at(s[output], co)
s[bias_tile].compute_at(s[output], co)

# Which instruction rule takes which loops; body and tails carry the same pragma.
s[padded].emit_insn(s[padded].axis[0], "dma")
s[kernel].emit_insn(s[kernel].axis[0], "dma")
s[bias_tile].emit_insn(s[bias_tile].axis[0], "dma")
s[product].emit_insn(s[product].axis[0], "gemm")
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
