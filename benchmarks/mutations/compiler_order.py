"""Faults of the compiler in what is done when: passes, buffers, chunks, loads that move, and tokens."""

from mutations.fault import faults_of

fault = faults_of("lathe.scheduler")

FAULTS = (
    # Order: what passes add is computed when its readers have run.
    fault(
        "an operand is loaded behind its reader",
        "passes.insert_cache_reads",
        "schedule.insert(cached, before=first)",
        "schedule.insert(cached, behind=stage)",
    ),
    fault(
        "a sum is widened behind its reader",
        "passes.widen_accumulators",
        "schedule.insert(initial_state(total), before=stage)",
        "schedule.insert(initial_state(total), behind=stage)",
    ),
    fault(
        "masks are made behind what they mask",
        "passes.if_convert",
        "schedule.insert(initial_state(computation), before=stage)",
        "schedule.insert(initial_state(computation), behind=stage)",
    ),
    # The stream: LOADs that move, and what they wait for.
    fault(
        "a LOAD moves before its cells are free",
        "stream.schedule_loads",
        "while part is not None and part.free < place:",
        "while part is not None:",
    ),
    fault(
        "a LOAD of parameters comes behind what reads them",
        "stream.hide_compute_loads",
        "        if step.meets(load):\n            return\n",
        "        if False:\n            return\n",
    ),
    # Allocation: where buffers are, and for how long.
    fault(
        "buffers overlap by an element",
        "allocation.allocation",
        "return self.size_per_thread * self.threads\n",
        "return self.size_per_thread * self.threads - 1\n",
    ),
    fault(
        "a buffer is free once it is filled",
        "allocation.allocation",
        "buffer.last = max(buffer.last, clock)\n            else",
        "buffer.last = buffer.last\n            else",
    ),
    fault(
        "two buffers in turn have room for one and a half",
        "allocation.allocation",
        "return self.size * self.slots\n",
        "return self.size * self.slots - (self.slots - 1)\n",
    ),
    fault(
        "buffers in turn lie too close",
        "codegen.emit",
        "turn % buffer.slots * buffer.size",
        "turn % buffer.slots * (buffer.size - 1)",
        "tokens follow from cells: what is shared is loaded later, never wrongly",
    ),
    fault(
        "one more buffer takes its turn than there are",
        "codegen.emit",
        "turn % buffer.slots * buffer.size",
        "turn % (buffer.slots + 1) * buffer.size",
    ),
    fault(
        "threads share a buffer",
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
        "a ring is counted around one cell late",
        "codegen.emit",
        "floor_divide(index[dimension], size) * size",
        "floor_divide(index[dimension], size + 1) * (size + 1)",
    ),
    # Chunks: which there are, and in which order.
    fault(
        "the last instruction of a chunk is dropped",
        "codegen.emit",
        "instructions = self.emit(work.rule, chunk)",
        "instructions = self.emit(work.rule, chunk)[:-1]",
    ),
    fault(
        "chunks are done twice",
        "codegen.emit",
        "self._add(instructions, stage, label, environment, chunk.offsets",
        "self._add(instructions * 2, stage, label, environment, chunk.offsets",
    ),
    fault(
        "chunks that are moved keep their addresses",
        "codegen.chunk_memo",
        "by = address - self.address",
        "by = 0",
    ),
    fault(
        "chunks are taken for alike whatever their conditions",
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
    fault("accumulators are not set to their start", "isel.rules.gemm", "return reset_elements(chunk)", "return []"),
    fault(
        "of a chunk that is cut, one part is dropped",
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
        "a partitioned loop is cut one iteration late",
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
        "of two ranges that overlap one is taken for the lesser",
        "rewriting.constant_folding",
        "if b <= c:",
        "if a <= c:",
    ),
    fault(
        "a mask is the other way around",
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
        "tokens are lost where one instruction has passed",
        "stream.tokens",
        "if other != unit and needed[other] > self.known[unit][other]:",
        "if other != unit and needed[other] > self.known[unit][other] + 1:",
    ),
    fault("tokens go the other way", "stream.tokens", "forward = giver < taker", "forward = giver > taker"),
    fault(
        "waiting for one unit is taken for waiting for all",
        "stream.tokens",
        "zip(self.known[taker], self.done[pusher], strict=True)]",
        "zip(self.known[taker], self.known[giver], strict=True)]",
    ),
    fault(
        "no news of the far unit is passed on",
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
        "two products begin one sum",
        "stream.elide_accumulator_init",
        " and not self._taken[cells].any())",
        ")",
    ),
    fault(
        "zeros that somebody reads are not written",
        "stream.elide_accumulator_init",
        "self.live_resets.setdefault(",
        "{}.setdefault(reset,",
    ),
    fault(
        "the last element of a store is not looked at",
        "stream.memory_effects",
        "count = store.y_size * store.x_size\n",
        "count = store.y_size * store.x_size - 1\n",
    ),
)
