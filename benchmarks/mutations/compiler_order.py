"""Faults of the compiler in order and allocation: passes, buffers, chunks, moved LOADs, and tokens."""

from mutations.fault import faults_of

fault = faults_of("lathe.scheduler")

FAULTS = (
    # Order of stages: what passes insert is computed before its consumers.
    fault(
        "an operand is loaded after its consumer",
        "passes.insert_cache_reads",
        "schedule.insert(cached, before=first)",
        "schedule.insert(cached, behind=stage)",
    ),
    fault(
        "a sum is widened after its consumer",
        "passes.widen_accumulators",
        "schedule.insert(initial_state(total), before=stage)",
        "schedule.insert(initial_state(total), behind=stage)",
    ),
    fault(
        "masks are computed after their consumers",
        "passes.if_convert",
        "schedule.insert(initial_state(computation), before=stage)",
        "schedule.insert(initial_state(computation), behind=stage)",
    ),
    # Order of instructions: LOADs that move, and their dependences.
    fault(
        "a LOAD moves before its cells are free",
        "stream.schedule_loads",
        "while part is not None and part.free < place:",
        "while part is not None:",
    ),
    fault(
        "a LOAD of parameters comes after its consumer",
        "stream.hide_compute_loads",
        "        if step.meets(load):\n            return\n",
        "        if False:\n            return\n",
    ),
    # Allocation: addresses and live ranges of buffers.
    fault(
        "buffers overlap by a vector",
        "allocation.allocation",
        "return self.size_per_thread * self.threads\n",
        "return self.size_per_thread * self.threads - 1\n",
    ),
    fault(
        "a live range ends with the last write",
        "allocation.allocation",
        "buffer.last = max(buffer.last, clock)\n            else",
        "buffer.last = buffer.last\n            else",
    ),
    fault(
        "a double buffer is a vector too small",
        "allocation.allocation",
        "return self.size * self.slots\n",
        "return self.size * self.slots - (self.slots - 1)\n",
    ),
    fault(
        "slots of a multi-buffer overlap",
        "codegen.emit",
        "turn % buffer.slots * buffer.size",
        "turn % buffer.slots * (buffer.size - 1)",
        "tokens follow from cells: what is shared is loaded later, never wrongly",
    ),
    fault(
        "a multi-buffer has one slot too many",
        "codegen.emit",
        "turn % buffer.slots * buffer.size",
        "turn % (buffer.slots + 1) * buffer.size",
    ),
    fault(
        "virtual threads share a buffer",
        "codegen.emit",
        "base = buffer.base + self.thread * buffer.size_per_thread",
        "base = buffer.base",
    ),
    fault(
        "temporaries of a chunk overlap",
        "codegen.rule_driver",
        "self._used += count\n        return first + self._used - count",
        "self._used += count - 1\n        return first + self._used - count + 1",
    ),
    fault(
        "a ring buffer wraps around one cell late",
        "codegen.emit",
        "floor_divide(index[dimension], size) * size",
        "floor_divide(index[dimension], size + 1) * (size + 1)",
    ),
    # Chunks: which exist, and in which order.
    fault(
        "the last instruction of a chunk is dropped",
        "codegen.emit",
        "instructions = self.emit(work.rule, chunk)",
        "instructions = self.emit(work.rule, chunk)[:-1]",
    ),
    fault(
        "chunks are executed twice",
        "codegen.emit",
        "self._add(instructions, stage, label, environment, chunk.offsets",
        "self._add(instructions * 2, stage, label, environment, chunk.offsets",
    ),
    fault(
        "reused chunks keep their addresses",
        "codegen.chunk_memo",
        "by = address - self.address",
        "by = 0",
    ),
    fault(
        "chunks are reused whatever their conditions",
        "codegen.chunk_memo",
        "[values[n] for n in self._decisive]",
        "[]",
    ),
    fault(
        "the instructions of a chunk come in the wrong order",
        "codegen.emit",
        "self.entries += [(each, origin) for each in instructions]",
        "self.entries += [(each, origin) for each in instructions[::-1]]",
    ),
    fault(
        "iterations run backwards",
        "codegen.emit",
        "for inside in iteration_groups(threads, node, dict):",
        "for inside in list(iteration_groups(threads, node, dict))[::-1]:",
    ),
    fault("accumulators are not initialised", "isel.rules.gemm", "return reset_elements(chunk)", "return []"),
    fault(
        "one half of a split chunk is dropped",
        "codegen.chunk_template",
        "for cut in (part[bend.loop][bend.count :], part[bend.loop][: bend.count]):",
        "for cut in (part[bend.loop][: bend.count],):",
    ),
    fault(
        "the tail of a partitioned loop is dropped",
        "loop_ir.partition",
        "zip(ordered, [*ordered[1:], last + 1], strict=True)]",
        "zip(ordered, [*ordered[1:], last + 1], strict=True)][: max(len(ordered) - 1, 1)]",
    ),
    fault(
        "a loop is partitioned one iteration late",
        "loop_ir.partition",
        "starts.update(value for value in range(max(begin, first), min(end, last) + 1))",
        "starts.update(value + 1 for value in range(max(begin, first), min(end, last - 1) + 1))",
    ),
    fault(
        "boxes of a peeled chunk are one iteration short",
        "isel.peel_conditions",
        "box[loops[depth]] = (values[0], values[-1])",
        "box[loops[depth]] = (values[0], max(values[0], values[-1] - 1))",
    ),
    fault(
        "a peeled chunk takes the other branch",
        "isel.peel_conditions",
        "yield list(box), tuple(bool(each) for each in truth)",
        "yield list(box), tuple(not each for each in truth)",
    ),
    # Passes.
    fault(
        "overlapping ranges are taken as ordered",
        "rewriting.constant_folding",
        "if b <= c:",
        "if a <= c:",
    ),
    fault(
        "a mask is inverted",
        "passes.if_convert",
        "self._constant(condition)",
        'Binary("sub", Const(1, INT32), self._constant(condition))',
    ),
    fault(
        "a condition on a factor is dropped",
        "passes.if_convert",
        "body = Select(substitute(condition, points), value, Const(0, tensor.dtype))",
        "body = value",
    ),
    # Tokens.
    fault(
        "a dependence one instruction ahead gets no token",
        "stream.tokens",
        "if other != unit and needed[other] > self.known[unit][other]:",
        "if other != unit and needed[other] > self.known[unit][other] + 1:",
    ),
    fault("tokens go in the opposite direction", "stream.tokens", "forward = giver < taker", "forward = giver > taker"),
    fault(
        "tokens carry the vector clock of now, not of their push",
        "stream.tokens",
        "zip(self.known[taker], self.done[pusher], strict=True)]",
        "zip(self.known[taker], self.known[giver], strict=True)]",
    ),
    fault(
        "dependences between load and store get no relay",
        "stream.tokens",
        "if needed[far] > self.known[unit][far]:",
        "if needed[far] > self.known[unit][far] + 10000:",
    ),
    fault(
        "writers do not wait for readers",
        "stream.last_accesses",
        "self.readers[memory].take(needed, cells, unit, known)",
        "pass",
    ),
    fault(
        "readers do not wait for writers",
        "stream.last_accesses",
        "in footprint.reads_only:\n            self.writers[memory].take(needed, cells, unit, known)\n",
        "in footprint.reads_only:\n            pass\n",
    ),
    fault(
        "two GEMMs overwrite one accumulator",
        "stream.elide_accumulator_init",
        " and not self._taken[cells].any())",
        ")",
    ),
    fault(
        "a live reset is removed",
        "stream.elide_accumulator_init",
        "self.live_resets.setdefault(",
        "{}.setdefault(reset,",
    ),
    fault(
        "the last vector of a STORE is ignored",
        "stream.memory_effects",
        "count = store.y_size * store.x_size\n",
        "count = store.y_size * store.x_size - 1\n",
    ),
)
