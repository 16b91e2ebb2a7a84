"""Faults of the compiler: programs are built with them, and all that ``build(..., check=True)`` asks is asked."""

from collections.abc import Callable, Mapping

from fault_kinds.compiled_programs import MORE_RECIPES
from fault_kinds.fault import Fault, Kind
from fault_kinds.programs import RECIPES, Recipe
from lathe.configs import LatheError
from lathe.isa import verify
from lathe.scheduler import ValidationError
from lathe.validation.runs import validate_runs
from lathe.validation.stream import validate_stream

NETS = ("legality", "refused", "verifier", "validation", "values")

ENOUGH = 4
"""Programs that are looked at from the first on which validation or the verifier has caught a fault."""


def verdicts() -> dict[str, str]:
    """Build the programs, and see who catches what."""
    found: dict[str, str] = {}
    left = ENOUGH
    for recipe in (*RECIPES, *MORE_RECIPES):
        for net, said in look(recipe).items():
            found.setdefault(net, f"{recipe.name}: {said}")
        left -= "validation" in found or "verifier" in found
        if not left:
            break
    return found


def look(recipe: Recipe) -> Mapping[str, str]:
    """The nets that catch the compiler on a program, each with what it says."""
    try:
        compiled, outputs = recipe.compile()
    except AssertionError as error:
        return {"legality" if "completing" in str(error) else "refused": first_words(error)}
    except (LatheError, KeyError, IndexError, ValueError) as error:
        return {"refused": first_words(error)}
    found: dict[str, str] = {}
    findings = verify(compiled.program)
    if findings:
        found["verifier"] = str(findings[0].kind)
    out_of_range = any("range" in str(finding.kind) or "field" in str(finding.kind) for finding in findings)
    if not out_of_range:  # nothing can be followed beyond the ends of memories
        found |= caught("validation", lambda: validate_stream(compiled))
        found |= caught("values", lambda: validate_runs(compiled.program, outputs, compiled.constants))
    return found


def caught(net: str, ask: Callable[[], None]) -> dict[str, str]:
    """The net, if it catches something."""
    try:
        ask()
    except ValidationError as error:
        return {net: first_words(error)}
    return {}


def first_words(error: Exception) -> str:
    """The beginning of a message."""
    return " ".join(str(error).split()[:6])


def fault(name: str, module: str, before: str, after: str, harmless: str = "") -> Fault:
    return Fault(name, f"lathe.scheduler.{module}", before, after, harmless)


FAULTS = (
    # Order: what passes add is computed when its readers have run.
    fault(
        "an operand is loaded behind its reader",
        "passes.load_operands",
        "schedule.insert(cached, before=stage)",
        "schedule.insert(cached, behind=stage)",
    ),
    fault(
        "a sum is widened behind its reader",
        "passes.widen_sums",
        "schedule.insert(initial_state(total), before=stage)",
        "schedule.insert(initial_state(total), behind=stage)",
    ),
    fault(
        "masks are made behind what they mask",
        "passes.mask_conditions",
        "schedule.insert(initial_state(computation), before=stage)",
        "schedule.insert(initial_state(computation), behind=stage)",
    ),
    # The stream: LOADs that move, and what they wait for.
    fault(
        "a LOAD moves before its cells are free",
        "emission.load_order",
        "while part is not None and part.free < place:",
        "while part is not None:",
    ),
    fault(
        "a LOAD of parameters comes behind what reads them",
        "emission.fetch_early",
        "        if step.meets(load):\n            return\n",
        "        if False:\n            return\n",
    ),
    # Allocation: where buffers are, and for how long.
    fault(
        "buffers overlap by an element",
        "target.allocation",
        "return self.of_thread * self.threads\n",
        "return self.of_thread * self.threads - 1\n",
    ),
    fault(
        "a buffer is free once it is filled",
        "target.allocation",
        "buffer.last = max(buffer.last, clock)\n            else",
        "buffer.last = buffer.last\n            else",
    ),
    fault(
        "two buffers in turn have room for one and a half",
        "target.allocation",
        "return self.size * self.slots\n",
        "return self.size * self.slots - (self.slots - 1)\n",
    ),
    fault(
        "buffers in turn lie too close",
        "emission.emit",
        "turn % buffer.slots * buffer.size",
        "turn % buffer.slots * (buffer.size - 1)",
        "tokens follow from cells: what is shared is loaded later, never wrongly",
    ),
    fault(
        "one more buffer takes its turn than there are",
        "emission.emit",
        "turn % buffer.slots * buffer.size",
        "turn % (buffer.slots + 1) * buffer.size",
    ),
    fault(
        "threads share a buffer",
        "emission.emit",
        "base = buffer.base + self.thread * buffer.of_thread",
        "base = buffer.base",
    ),
    fault(
        "temporaries of a chunk overlap",
        "emission.emit",
        "self._used += count\n        return first + self._used - count",
        "self._used += count - 1\n        return first + self._used - count + 1",
    ),
    fault(
        "a ring is counted around one cell late",
        "emission.emit",
        "floor_divide(index[dimension], size) * size",
        "floor_divide(index[dimension], size + 1) * (size + 1)",
    ),
    # Aliases: results in the cells of operands.
    # Chunks: which there are, and in which order.
    fault(
        "the last instruction of a chunk is dropped",
        "emission.emit",
        "instructions = self.emit(work.rule, chunk)",
        "instructions = self.emit(work.rule, chunk)[:-1]",
    ),
    fault(
        "chunks are done twice",
        "emission.emit",
        "self._add(instructions, stage, label, environment, chunk.offsets",
        "self._add(instructions * 2, stage, label, environment, chunk.offsets",
    ),
    fault(
        "chunks that are moved keep their addresses",
        "emission.alike_chunks",
        "by = address - self.address",
        "by = 0",
    ),
    fault(
        "chunks are taken for alike whatever their conditions",
        "emission.alike_chunks",
        "[values[n] for n in self._decisive]",
        "[]",
    ),
    fault(
        "the instructions of a chunk come in the wrong order",
        "emission.emit",
        "self.entries += [(each, origin) for each in instructions]",
        "self.entries += [(each, origin) for each in instructions[::-1]]",
    ),
    fault(
        "iterations run backwards",
        "emission.emit",
        "for inside in turns(threads, node, dict):",
        "for inside in list(turns(threads, node, dict))[::-1]:",
    ),
    fault("accumulators are not set to their start", "target.rules.gemm", "return reset_elements(chunk)", "return []"),
    fault(
        "of a chunk that is cut, one part is dropped",
        "emission.prepared_chunk",
        "for cut in (part[bend.loop][bend.count :], part[bend.loop][: bend.count]):",
        "for cut in (part[bend.loop][: bend.count],):",
    ),
    fault(
        "the tail of a partitioned loop is dropped",
        "nest.partition",
        "zip(ordered, [*ordered[1:], last + 1], strict=True)]",
        "zip(ordered, [*ordered[1:], last + 1], strict=True)][: max(len(ordered) - 1, 1)]",
    ),
    fault(
        "a partitioned loop is cut one iteration late",
        "nest.partition",
        "starts.update(value for value in range(max(begin, first), min(end, last) + 1))",
        "starts.update(value + 1 for value in range(max(begin, first), min(end, last - 1) + 1))",
    ),
    fault(
        "boxes of a peeled chunk are one iteration short",
        "target.boxes_of_chunk",
        "box[loops[depth]] = (values[0], values[-1])",
        "box[loops[depth]] = (values[0], max(values[0], values[-1] - 1))",
    ),
    fault(
        "a peeled chunk takes the other branch",
        "target.boxes_of_chunk",
        "yield list(box), tuple(bool(each) for each in truth)",
        "yield list(box), tuple(not each for each in truth)",
    ),
    # Addresses of chunks: bases, strides, lanes.
    fault(
        "the base of weights is one too far",
        "target.rules.gemm",
        "[each.base + sum(",
        "[each.base + (each is wgt) + sum(",
    ),
    fault(
        "the base of inputs is one too far",
        "target.rules.gemm",
        "[each.base + sum(",
        "[each.base + (each is src) + sum(",
    ),
    fault(
        "the base of accumulators is one too far",
        "target.rules.gemm",
        "[each.base + sum(",
        "[each.base + (each is dst) + sum(",
    ),
    fault(
        "the base in DRAM is one too far",
        "target.rules.dma",
        "view.write.base, view.reads[0].base, mask, padding or ZEROS",
        "view.write.base, view.reads[0].base + 1, mask, padding or ZEROS",
    ),
    fault(
        "the first cell of a buffer is taken for cell 0",
        "target.chunk",
        "(first // step - place.low[dim] // step) * stride",
        "first // step * stride",
    ),
    fault(
        "a loop moves by half of its stride",
        "target.chunk",
        "steps[loop] += coefficient // step * stride if whole",
        "steps[loop] += coefficient // step * (stride + 1) // 2 if whole",
    ),
    fault(
        "steps of two elements are taken for one",
        "target.chunk",
        "steps[loop] += coefficient // step * stride if whole",
        "steps[loop] += (coefficient // step > 0) * stride if whole",
    ),
    fault(
        "dimensions of a buffer are in the wrong order",
        "target.elements",
        "for dim in reversed(self.order):",
        "for dim in self.order:",
    ),
    fault(
        "the host packs dimensions in another order",
        "target.elements",
        "for dim in self.order]\n        if self.lanes.turns",
        "for dim in self.order[::-1]]\n        if self.lanes.turns",
    ),
    # Micro-ops and the loops of instructions.
    fault(
        "the factors of the two loops are exchanged",
        "target.rules.looping",
        "yield LoopPlan(outer.extent, inner.extent, outer.strides, inner.strides, micro_ops)",
        "yield LoopPlan(outer.extent, inner.extent, inner.strides, outer.strides, micro_ops)",
    ),
    fault(
        "the inner loop is one iteration short",
        "target.rules.looping",
        "yield LoopPlan(outer.extent, inner.extent, outer",
        "yield LoopPlan(outer.extent, max(inner.extent - 1, 1), outer",
    ),
    fault(
        "the outer loop is one iteration long",
        "target.rules.looping",
        "yield LoopPlan(outer.extent, inner.extent, outer",
        "yield LoopPlan(outer.extent + 1, inner.extent, outer",
    ),
    fault(
        "products go where there are no cells",
        "target.rules.gaps",
        "% gap.step == gap.at",
        "% gap.step == (gap.at + 1) % gap.step",
    ),
    fault(
        "gaps lie elsewhere than the data",
        "target.gaps",
        "int(indices[0]) % step)",
        "(int(indices[0]) + 1) % step)",
    ),
    fault(
        "parts of a loop begin with its first iteration",
        "target.rules.gaps",
        "index.coefficients[n] * steps.first for",
        "index.coefficients[n] * 0 * steps.first for",
    ),
    fault(
        "what is left of a divided loop is left out",
        "nest.divided_loops",
        "    if extent % step:\n",
        "    if extent % step and False:\n",
    ),
    fault("turned elements keep their order", "target.turns", "orders[lanes.turns]", "orders[0]"),
    fault(
        "instructions of one chunk do not move on",
        "target.rules.looping",
        "base + sum(value * loop.strides[operand] for value",
        "base + sum(0 * loop.strides[operand] for value",
    ),
    fault(
        "micro-ops lack their base",
        "target.rules.looping",
        "micro_ops = tuple(offset + base for offset, base",
        "micro_ops = tuple(offset + 0 * base for offset, base",
    ),
    fault(
        "a factor of GEMM goes to the wrong operand",
        "target.rules.products",
        "do, di, so, si, wo, wi)",
        "do, di, wo, wi, so, si)",
    ),
    fault(
        "loops that do not continue each other are merged",
        "target.rules.looping",
        "continues = all(o == i * inner.extent",
        "continues = all(o >= i * inner.extent",
    ),
    fault(
        "displaced micro-ops are taken for resident",
        "emission.microops",
        "if r[1] <= first or r[0] >= end}",
        "if r[1] <= first or r[0] >= 0}",
    ),
    fault(
        "micro-ops in DRAM are counted one short",
        "emission.microops",
        "self.count += size\n        if",
        "self.count += size - 1\n        if",
    ),
    fault(
        "the micro-ops' segment is read one too far",
        "emission.assemble",
        "dram_base=instruction.dram_base + uop_base)",
        "dram_base=instruction.dram_base + uop_base + 1)",
    ),
    # Transfers: rows, pads, planes.
    fault(
        "pads above and below are exchanged",
        "target.rules.transfers",
        "        top,\n        bottom,\n        left,",
        "        bottom,\n        top,\n        left,",
    ),
    fault(
        "pads left and right are exchanged",
        "target.rules.transfers",
        "        left,\n        right,\n    )",
        "        right,\n        left,\n    )",
    ),
    fault(
        "a padded row starts at its first pixel",
        "target.rules.transfers",
        "dram + y0 * rows.dram + x0,",
        "dram + y0 * rows.dram,",
    ),
    fault(
        "a padded block starts at its first row", "target.rules.transfers", "dram + y0 * rows.dram + x0,", "dram + x0,"
    ),
    fault(
        "rows of a padded block adjoin in DRAM",
        "target.rules.transfers",
        "stride if y1 - y0 > 1 else x1 - x0,",
        "x1 - x0,",
    ),
    fault(
        "rows of a store adjoin in DRAM",
        "target.rules.transfers",
        "stride = rows.dram if rows.extent > 1 else row.extent\n        yield Store",
        "stride = row.extent\n        yield Store",
    ),
    fault(
        "rows of a load adjoin in DRAM",
        "target.rules.transfers",
        "stride = rows.dram if rows.extent > 1 else row.extent\n    if window",
        "stride = row.extent\n    if window",
    ),
    fault(
        "rows that do not adjoin in DRAM are merged",
        "target.rules.transfers",
        "and before.dram == loop.dram * loop.extent",
        "and before.dram >= loop.dram * loop.extent",
    ),
    fault(
        "padding is where data are",
        "target.rules.dma",
        "mask &= np.broadcast_to(evaluate(guard, env), shape) == holds",
        "mask &= np.broadcast_to(evaluate(guard, env), shape) != holds",
    ),
    fault(
        "padding of another value is one off",
        "target.rules.borders",
        "view.write.base, op, immediate)",
        "view.write.base, op, immediate + 1)",
    ),
    fault(
        "planes are stored in the wrong order",
        "target.rules.planes",
        "target + plane * plane_size",
        "target + (plane ^ 1) * plane_size",
    ),
    fault("planes are shifted by seven bits", "target.rules.planes", "source, AluOp.SHR, 8)", "source, AluOp.SHR, 7)"),
    fault("negative bytes of planes are not mended", "target.rules.planes", "AluOp.MUL, -256)", "AluOp.MUL, 0)"),
    fault(
        "the second half of a store in planes goes to the first",
        "target.rules.planes",
        "base + half * loop.dram)]",
        "base)]",
    ),
    # Arithmetic.
    fault("large constants lose a bit", "target.rules.reset", "(AluOp.SHR, -16)]", "(AluOp.SHR, -15)]"),
    fault(
        "the upper half of a constant does not borrow",
        "target.rules.reset",
        "high = ((value - low) >> 16) & 0xFFFF",
        "high = (value >> 16) & 0xFFFF",
    ),
    fault(
        "every reduction starts with 0",
        "target.rules.reset",
        'value = neutral(chunk.reduction or "sum", chunk.write.tensor.dtype)',
        "value = 0",
    ),
    fault(
        "narrow values do not wrap around",
        "target.rules.alu",
        "if not keep_low_bits_only and self._may_overflow(expr):",
        "if not keep_low_bits_only and not self._may_overflow(expr):",
    ),
    fault(
        "casts do not wrap around",
        "target.rules.alu",
        "if not fits and not keep_low_bits_only:",
        "if fits and not keep_low_bits_only:",
    ),
    fault(
        "values wrap around one bit early",
        "target.rules.alu",
        "self.immediate(AluOp.SHR, amount, target)",
        "self.immediate(AluOp.SHR, amount - 1, target)",
    ),
    fault(
        "differences have the wrong sign",
        "target.rules.alu",
        "self.immediate(AluOp.MUL, -1, target)",
        "self.immediate(AluOp.MUL, 1, target)",
    ),
    fault(
        "left shifts go right",
        "target.rules.alu",
        'right = -amount.value if op == "shl" else amount.value',
        "right = amount.value",
    ),
    fault(
        "a maximum is a minimum",
        "target.rules.alu",
        '"max": AluOp.MAX, "min": AluOp.MIN}[self.chunk.reduction]',
        '"max": AluOp.MIN, "min": AluOp.MAX}[self.chunk.reduction]',
    ),
    fault(
        "a copy adds to what is there",
        "target.rules.alu",
        "self.instructions += zero(self.chunk, extents, strides, target.base)\n        self.tensor",
        "self.instructions += []\n        self.tensor",
    ),
    fault(
        "the operand of another read is taken",
        "target.rules.alu",
        "if operand.operand.read is read:",
        "if operand.operand.read is not read or len(self.view.reads) == 1:",
    ),
    # Passes.
    fault(
        "of two ranges that overlap one is taken for the lesser",
        "algorithm.folding",
        "if b <= c:",
        "if a <= c:",
    ),
    fault(
        "a mask is the other way around",
        "passes.mask_conditions",
        "self._constant(condition)",
        'Binary("sub", Const(1, INT32), self._constant(condition))',
    ),
    fault(
        "a condition on a factor is dropped",
        "passes.mask_conditions",
        "body = Select(substitute(_all(conditions), points), value, Const(0, tensor.dtype))",
        "body = value",
    ),
    # Tokens.
    fault(
        "tokens are lost where one instruction has passed",
        "emission.tokens",
        "if other != unit and needed[other] > self.known[unit][other]:",
        "if other != unit and needed[other] > self.known[unit][other] + 1:",
    ),
    fault("tokens go the other way", "emission.tokens", "forward = giver < taker", "forward = giver > taker"),
    fault(
        "waiting for one unit is taken for waiting for all",
        "emission.tokens",
        "zip(self.known[taker], self.done[pusher], strict=True)]",
        "zip(self.known[taker], self.known[giver], strict=True)]",
    ),
    fault(
        "no news of the far unit is passed on",
        "emission.tokens",
        "if needed[far] > self.known[unit][far]:",
        "if needed[far] > self.known[unit][far] + 10000:",
    ),
    fault(
        "writers do not wait for readers",
        "emission.last_uses",
        "_take(latest, self.user[memory], cells)",
        "_take(latest, self.writer[memory], cells)",
    ),
    fault(
        "readers do not wait for writers",
        "emission.last_uses",
        "_take(latest, self.writer[memory], cells)",
        "pass",
    ),
    fault(
        "two products begin one sum",
        "emission.fresh_zeros",
        " and not self._taken[cells].any())",
        ")",
    ),
    fault(
        "zeros that somebody reads are not written",
        "emission.fresh_zeros",
        "self.needed.setdefault(reset,",
        "{}.setdefault(reset,",
    ),
    fault(
        "all micro-ops of an instruction begin sums",
        "target.rules.products",
        "begun=len(np.unique(first.micro_ops[0]))",
        "begun=len(first.micro_ops[0])",
    ),
    fault(
        "the rest of a loop along a sum is where its first iteration was",
        "target.rules.products",
        "each + step for each, step in zip(plan.micro_ops, plan.factor_in, strict=True)",
        "each + 0 * step for each, step in zip(plan.micro_ops, plan.factor_in, strict=True)",
    ),
    # Diagonal weights.
    Fault(
        "values stand beside the diagonal",
        "lathe.isa.layout_steps",
        "value % self.rows, value % self.cols",
        "(value + 1) % self.rows, value % self.cols",
    ),
    fault(
        "parts of an element are taken for elements",
        "target.rules.diagonals",
        "base=parted.base // parts",
        "base=parted.base",
    ),
    fault(
        "each part of an element moves to the next element",
        "target.rules.diagonals",
        "[stride // parts for",
        "[-(-stride // parts) for",
    ),
    fault(
        "an element of weights holds as many channels as one of the result",
        "target.element",
        "return min(self.rows, self.cols)",
        "return self.rows",
    ),
    fault(
        "the last element of a store is not looked at",
        "emission.footprints",
        "count = instruction.y_size * instruction.x_size\n",
        "count = instruction.y_size * instruction.x_size - 1\n",
    ),
)

COMPILER = Kind("compiler", FAULTS, NETS, verdicts)
