"""Faults of the compiler in instructions: addresses, loops and micro-ops, transfers, arithmetic, layouts."""

from mutations.fault import Fault, faults_of

fault = faults_of("lathe.scheduler")

FAULTS = (
    # Addresses of chunks: bases, strides, lanes.
    fault(
        "the base of weights is one too far",
        "isel.rules.gemm",
        "[each.base + sum(",
        "[each.base + (each is wgt) + sum(",
    ),
    fault(
        "the base of inputs is one too far",
        "isel.rules.gemm",
        "[each.base + sum(",
        "[each.base + (each is src) + sum(",
    ),
    fault(
        "the base of accumulators is one too far",
        "isel.rules.gemm",
        "[each.base + sum(",
        "[each.base + (each is dst) + sum(",
    ),
    fault(
        "the base in DRAM is one too far",
        "isel.rules.dma",
        "view.write.base, view.reads[0].base, mask, padding or ZEROS",
        "view.write.base, view.reads[0].base + 1, mask, padding or ZEROS",
    ),
    fault(
        "the first index of a buffer is taken as 0",
        "isel.chunk",
        "(first // step - place.low[dim] // step) * stride",
        "first // step * stride",
    ),
    fault(
        "a loop moves by half of its stride",
        "isel.chunk",
        "steps[loop] += coefficient // step * stride if whole",
        "steps[loop] += coefficient // step * (stride + 1) // 2 if whole",
    ),
    fault(
        "a stride of two vectors is taken as one",
        "isel.chunk",
        "steps[loop] += coefficient // step * stride if whole",
        "steps[loop] += (coefficient // step > 0) * stride if whole",
    ),
    fault(
        "dimensions of a buffer are in the wrong order",
        "layout.physical_layout",
        "for dim in reversed(self.order):",
        "for dim in self.order:",
    ),
    fault(
        "the host CPU packs dimensions in another order",
        "layout.physical_layout",
        "for dim in self.order]\n        if self.lanes.conversions",
        "for dim in self.order[::-1]]\n        if self.lanes.conversions",
    ),
    # Micro-ops and the loops of instructions.
    fault(
        "the factors of the two loops are exchanged",
        "isel.rules.loop_plan",
        "yield LoopPlan(outer.extent, inner.extent, outer.strides, inner.strides, micro_ops)",
        "yield LoopPlan(outer.extent, inner.extent, inner.strides, outer.strides, micro_ops)",
    ),
    fault(
        "the inner loop is one iteration short",
        "isel.rules.loop_plan",
        "yield LoopPlan(outer.extent, inner.extent, outer",
        "yield LoopPlan(outer.extent, max(inner.extent - 1, 1), outer",
    ),
    fault(
        "the outer loop is one iteration long",
        "isel.rules.loop_plan",
        "yield LoopPlan(outer.extent, inner.extent, outer",
        "yield LoopPlan(outer.extent + 1, inner.extent, outer",
    ),
    fault(
        "dilation gaps are computed instead of the data",
        "isel.rules.dilation_parts",
        "% gap.step == gap.at",
        "% gap.step == (gap.at + 1) % gap.step",
    ),
    fault(
        "dilation gaps have the wrong phase",
        "layout.dilation_compaction",
        "int(indices[0]) % step)",
        "(int(indices[0]) + 1) % step)",
    ),
    fault(
        "all parts of a dilated loop start at iteration 0",
        "isel.rules.dilation_parts",
        "index.coefficients[n] * steps.first for",
        "index.coefficients[n] * 0 * steps.first for",
    ),
    fault(
        "the tail of a delinearised loop is dropped",
        "loop_ir.delinearize_loops",
        "    if extent % step:\n",
        "    if extent % step and False:\n",
    ),
    fault("converted vectors are not permuted", "layout.vector_relayout", "orders[lanes.conversions]", "orders[0]"),
    fault(
        "all instructions of a chunk have the same base",
        "isel.rules.loop_plan",
        "base + sum(value * loop.strides[operand] for value",
        "base + sum(0 * loop.strides[operand] for value",
    ),
    fault(
        "micro-ops lack their base",
        "isel.rules.loop_plan",
        "micro_ops = tuple(offset + base for offset, base",
        "micro_ops = tuple(offset + 0 * base for offset, base",
    ),
    fault(
        "a factor of GEMM goes to the wrong operand",
        "isel.rules.emit_gemm",
        "do, di, so, si, wo, wi)",
        "do, di, wo, wi, so, si)",
    ),
    fault(
        "loops that are not contiguous are merged",
        "isel.rules.loop_plan",
        "continues = all(o == i * inner.extent",
        "continues = all(o >= i * inner.extent",
    ),
    fault(
        "evicted micro-ops are taken as resident",
        "stream.micro_op_pool",
        "if r[1] <= first or r[0] >= end}",
        "if r[1] <= first or r[0] >= 0}",
    ),
    fault(
        "micro-ops in DRAM are counted one short",
        "stream.micro_op_pool",
        "self.count += size\n        if",
        "self.count += size - 1\n        if",
    ),
    fault(
        "the micro-ops' segment is read one too far",
        "codegen.driver",
        "dram_base=instruction.dram_base + uop_base)",
        "dram_base=instruction.dram_base + uop_base + 1)",
    ),
    fault(
        "all micro-ops of a GEMM overwrite accumulators",
        "isel.rules.emit_gemm",
        "begun=len(np.unique(first.micro_ops[0]))",
        "begun=len(first.micro_ops[0])",
    ),
    fault(
        "the rest of a split reduction loop starts at iteration 0",
        "isel.rules.emit_gemm",
        "each + step for each, step in zip(plan.micro_ops, plan.factor_in, strict=True)",
        "each + 0 * step for each, step in zip(plan.micro_ops, plan.factor_in, strict=True)",
    ),
    # Transfers: rows, pads, planes.
    fault(
        "pads above and below are exchanged",
        "isel.rules.transfers",
        "        top,\n        bottom,\n        left,",
        "        bottom,\n        top,\n        left,",
    ),
    fault(
        "pads left and right are exchanged",
        "isel.rules.transfers",
        "        left,\n        right,\n    )",
        "        right,\n        left,\n    )",
    ),
    fault(
        "a padded row starts at its first pixel",
        "isel.rules.transfers",
        "dram + y0 * rows.dram + x0,",
        "dram + y0 * rows.dram,",
    ),
    fault(
        "a padded block starts at its first row", "isel.rules.transfers", "dram + y0 * rows.dram + x0,", "dram + x0,"
    ),
    fault(
        "rows of a padded block are taken as contiguous in DRAM",
        "isel.rules.transfers",
        "stride if y1 - y0 > 1 else x1 - x0,",
        "x1 - x0,",
    ),
    fault(
        "rows of a store are taken as contiguous in DRAM",
        "isel.rules.transfers",
        "stride = rows.dram if rows.extent > 1 else row.extent\n        yield Store",
        "stride = row.extent\n        yield Store",
    ),
    fault(
        "rows of a load are taken as contiguous in DRAM",
        "isel.rules.transfers",
        "stride = rows.dram if rows.extent > 1 else row.extent\n    if window",
        "stride = row.extent\n    if window",
    ),
    fault(
        "rows that are not contiguous in DRAM are merged",
        "isel.rules.transfers",
        "and before.dram == loop.dram * loop.extent",
        "and before.dram >= loop.dram * loop.extent",
    ),
    fault(
        "padding and data are exchanged",
        "isel.rules.dma",
        "mask &= np.broadcast_to(evaluate(guard, env), shape) == holds",
        "mask &= np.broadcast_to(evaluate(guard, env), shape) != holds",
    ),
    fault(
        "a nonzero padding value is one too large",
        "isel.rules.border_fill",
        "view.write.base, op, immediate)",
        "view.write.base, op, immediate + 1)",
    ),
    fault(
        "byte planes are stored in the wrong order",
        "isel.rules.planes",
        "target + plane * plane_size",
        "target + (plane ^ 1) * plane_size",
    ),
    fault("byte planes are shifted by 7 bits", "isel.rules.planes", "source, AluOp.SHR, 8)", "source, AluOp.SHR, 7)"),
    fault("negative bytes of planes are not corrected", "isel.rules.planes", "AluOp.MUL, -256)", "AluOp.MUL, 0)"),
    fault(
        "the second half of a store in byte planes overwrites the first",
        "isel.rules.planes",
        "base + half * loop.dram)]",
        "base)]",
    ),
    # Arithmetic.
    fault("large constants lose a bit", "isel.rules.reset", "(AluOp.SHR, -16)]", "(AluOp.SHR, -15)]"),
    fault(
        "the upper half of a constant does not borrow",
        "isel.rules.reset",
        "high = ((value - low) >> 16) & 0xFFFF",
        "high = (value >> 16) & 0xFFFF",
    ),
    fault(
        "every reduction starts with 0",
        "isel.rules.reset",
        'value = neutral_element(chunk.reduction or "sum", chunk.write.tensor.dtype)',
        "value = 0",
    ),
    fault(
        "narrow values do not wrap around",
        "isel.rules.alu",
        "if not keep_low_bits_only and self._may_overflow(expr):",
        "if not keep_low_bits_only and not self._may_overflow(expr):",
    ),
    fault(
        "casts do not wrap around",
        "isel.rules.alu",
        "if not fits and not keep_low_bits_only:",
        "if fits and not keep_low_bits_only:",
    ),
    fault(
        "values wrap around one bit early",
        "isel.rules.alu",
        "self.immediate(AluOp.SHR, amount, target)",
        "self.immediate(AluOp.SHR, amount - 1, target)",
    ),
    fault(
        "differences have the wrong sign",
        "isel.rules.alu",
        "self.immediate(AluOp.MUL, -1, target)",
        "self.immediate(AluOp.MUL, 1, target)",
    ),
    fault(
        "left shifts go right",
        "isel.rules.alu",
        'right = -amount.value if op == "shl" else amount.value',
        "right = amount.value",
    ),
    fault(
        "a maximum is a minimum",
        "isel.rules.alu",
        '"max": AluOp.MAX, "min": AluOp.MIN}[self.chunk.reduction]',
        '"max": AluOp.MIN, "min": AluOp.MAX}[self.chunk.reduction]',
    ),
    fault(
        "a copy adds to the old accumulators",
        "isel.rules.alu",
        "self.instructions += zero(self.chunk, extents, strides, target.base)\n        self.tensor",
        "self.instructions += []\n        self.tensor",
    ),
    fault(
        "the operand of another read is used",
        "isel.rules.alu",
        "if operand.operand.read is read:",
        "if operand.operand.read is not read or len(self.view.reads) == 1:",
    ),
    # Diagonal weights.
    Fault(
        "values are next to the diagonal",
        "lathe.isa.layout_steps",
        "value % self.rows, value % self.cols",
        "(value + 1) % self.rows, value % self.cols",
    ),
    fault(
        "parts of a vector are addressed as vectors",
        "isel.rules.diagonal_vectors",
        "base=parted.base // parts",
        "base=parted.base",
    ),
    fault(
        "each part of a vector advances to the next vector",
        "isel.rules.diagonal_vectors",
        "tuple(stride // parts for",
        "tuple(-(-stride // parts) for",
    ),
    fault(
        "a weight vector holds as many channels as a result vector",
        "layout.vector_type",
        "return min(self.rows, self.cols)",
        "return self.rows",
    ),
)
