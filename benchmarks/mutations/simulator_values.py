"""Faults of the simulator in values: GEMM, ALU, RESCALE, LOAD and STORE."""

from mutations.fault import faults_of

fault = faults_of("lathe")

FAULTS = (
    fault(
        "repeated GEMM destinations count once",
        "sim.gemm_blocking",
        "if np.bincount(targets).max() == 1:",
        "if np.bincount(targets).max() <= 2:",
    ),
    fault(
        "rows and columns are swapped",
        "sim.gemm_blocking",
        "        return Role.ROW\n    return Role.COLUMN",
        "        return Role.COLUMN\n    return Role.ROW",
    ),
    fault(
        "sums exceed the exact range of float32",
        "sim.gemm",
        "most_terms=max(1, EXACT_TERMS // cfg.block_in)",
        "most_terms=EXACT_TERMS * 64",
    ),
    fault(
        "the outer loop of a reset has the inner stride",
        "sim.gemm",
        "np.arange(nest.iter_out) * nest.dst.out",
        "np.arange(nest.iter_out) * nest.dst.inner",
    ),
    fault(
        "sums saturate",
        "sim.gemm",
        "self.acc[target] += self.products(contraction, samples)",
        "self.acc[target] = (self.acc[target] + np.int64(self.products(contraction, samples))).clip("
        "-(2**31), 2**31 - 1)",
    ),
    fault(
        "of micro-ops that overwrite one accumulator the first one counts",
        "sim.micro_ops",
        "np.unique(values[::-1], return_index=True)\n    positions: Ints = np.sort(len(values) - 1 - from_end)",
        "np.unique(values, return_index=True)\n    positions: Ints = np.sort(from_end)",
    ),
    fault(
        "repeated ALU destinations count once",
        "sim.levelized_uops",
        "if np.bincount(dst).max() == 1:",
        "if np.bincount(dst).max() <= 2:",
    ),
    fault(
        "an ALU operand is read before the micro-op that writes it",
        "sim.levelized_uops",
        "earliest = max(earliest, after_write[source])",
        "pass",
    ),
    fault(
        "an ALU operand is read after the micro-op that overwrites it",
        "sim.levelized_uops",
        "max(after_write[target], reads[target])",
        "after_write[target]",
    ),
    fault(
        "an immediate is not sign-extended",
        "isa.uop_semantics",
        "instruction.imm if",
        "instruction.imm & 0xFFFF if",
    ),
    fault(
        "ALU operands are swapped",
        "isa.uop_semantics",
        'alu(instruction.alu_opcode, of["dst"], operand)',
        'alu(instruction.alu_opcode, np.broadcast_to(operand, of["dst"].shape).astype(np.int32), of["dst"])',
    ),
    fault("a left shift by 32 shifts by 31", "isa.arithmetic", "lowest = max(-width,", "lowest = max(1 - width,"),
    fault(
        "right shifts are logical",
        "isa.arithmetic",
        "shift = np.right_shift if amounts >= 0 else np.left_shift",
        "left, shift = (left.view('u4'), np.right_shift) if amounts >= 0 else (left, np.left_shift)",
    ),
    fault("rows of padding above are not written", "sim.dma", "block[:top] = padding", "pass"),
    fault("padding to the right is not written", "sim.dma", "block[top : top + y, left + x :] = padding", "pass"),
    fault(
        "padding below begins a row too late",
        "sim.dma",
        "block[top + y :] = padding",
        "block[top + y + 1 :] = padding",
    ),
    fault("STORE saturates", "sim.dma", "y * x].astype(np.int8)", "y * x].clip(-128, 127).astype(np.int8)"),
    fault(
        "LOAD acc8 extends with zeros",
        "sim.dma",
        "row.element_bytes(cfg), dtype)",
        "row.element_bytes(cfg), np.dtype('u1') if row.type == 5 else dtype)",
    ),
    fault(
        "the stride of a LOAD is a vector too long",
        "sim.dma",
        "load.x_stride * element_bytes)",
        "(load.x_stride + 1) * element_bytes)",
    ),
    fault(
        "the base of a STORE is a vector too far",
        "sim.dma",
        "store.dram_base * self.out_bytes",
        "(store.dram_base + 1) * self.out_bytes",
    ),
    fault(
        "the base of a LOAD in its scratchpad is one too far",
        "sim.dma",
        "slice(load.sram_base, load.sram_base + width",
        "slice(load.sram_base + 1, 1 + load.sram_base + width",
    ),
    fault(
        "of overlapping rows the first remains",
        "sim.dram",
        "for row in range(rows):\n            target[row]",
        "for row in reversed(range(rows)):\n            target[row]",
    ),
    fault("the plan cache ignores micro-ops", "sim.uop_plan_cache", "words.tobytes(),", "len(words),"),
    fault(
        "the plan cache ignores factors",
        "sim.uop_plan_cache",
        "loops_of(instruction))",
        "loops_of(instruction)[:3])",
    ),
    fault(
        "the inner loop has the outer stride",
        "sim.micro_ops",
        "[None, :, None] * self.inner",
        "[None, :, None] * self.out",
    ),
    fault(
        "the first index beyond a scratchpad is found a micro-op late",
        "sim.micro_ops",
        "int(np.argmax(reached))",
        "int(np.argmax(reached)) + 1",
    ),
    fault(
        "halves are rounded up",
        "isa.arithmetic",
        "((rest == half) & ((down & one) == one))",
        "(rest == half)",
    ),
    fault(
        "a sum with its bias does not wrap around",
        "isa.arithmetic",
        "add(np.asarray(sums, np.int32), biases).astype(np.int64)",
        "(np.asarray(sums, np.int64) + biases)",
    ),
    fault("mantissas are unsigned", "isa.arithmetic", "words >> SHIFT_BITS", "(words & 0xFFFFFFFF) >> SHIFT_BITS"),
    fault(
        "an added operand has the mantissa of the first",
        "isa.uop_semantics",
        'biases, factors = _parameters(of["wgt|1"])',
        'biases, _ = _parameters(of["wgt|1"])',
    ),
    fault(
        "an added operand has the parameters of the first",
        "sim.levelized_uops",
        "as_slice(grids[each][chosen] | 1)",
        "as_slice(grids[each][chosen])",
    ),
    fault(
        "the zero point is added before rounding",
        "isa.uop_semantics",
        "shift_right_to_even(sums, shifts) + instruction.zero_point",
        "shift_right_to_even(sums + instruction.zero_point, shifts)",
    ),
    fault(
        "RELU cuts at 0, whatever the zero point",
        "configs.instructions.rescale",
        "return self.zero_point if self.relu",
        "return 0 if self.relu",
    ),
    fault(
        "the lower end of an empty range is used",
        "isa.uop_semantics",
        "np.minimum(np.maximum(shift_right_to_even(sums, shifts) + instruction.zero_point, low), high)",
        "np.maximum(np.minimum(shift_right_to_even(sums, shifts) + instruction.zero_point, high), low)",
    ),
    fault("tables have 128 rows", "isa.uop_semantics", "values & 255, axis", "values & 127, axis"),
    fault("looked-up values are always signed", "isa.uop_semantics", "if instruction.lookup_unsigned:", "if False:"),
    fault(
        "all lookups use the first table",
        "isa.operands",
        "int(getattr(instruction, block.name)) * block.elements",
        "0 * block.elements",
    ),
    fault("GEMM operations count resets", "sim.counters", "executed[gemm & ~reset]", "executed[gemm]"),
)
