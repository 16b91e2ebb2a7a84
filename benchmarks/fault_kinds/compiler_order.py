"""Faults of the compiler in what is done when: passes, buffers, chunks, loads that move, and tokens."""

from fault_kinds.fault import faults_of

fault = faults_of("lathe.scheduler")

FAULTS = (
    # Order: what passes add is computed when its readers have run.
    fault(
        "an operand is loaded behind its reader",
        "passes.load_operands",
        "schedule.insert(cached, before=first)",
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
        "emission.rule_caller",
        "self._used += count\n        return first + self._used - count",
        "self._used += count - 1\n        return first + self._used - count + 1",
    ),
    fault(
        "a ring is counted around one cell late",
        "emission.emit",
        "floor_divide(index[dimension], size) * size",
        "floor_divide(index[dimension], size + 1) * (size + 1)",
    ),
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
        "body = Select(substitute(condition, points), value, Const(0, tensor.dtype))",
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
        "self.readers[memory].take(needed, cells, unit, known)",
        "pass",
    ),
    fault(
        "readers do not wait for writers",
        "emission.last_uses",
        "in footprint.kept:\n            self.writers[memory].take(needed, cells, unit, known)\n",
        "in footprint.kept:\n            pass\n",
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
        "the last element of a store is not looked at",
        "emission.footprints",
        "count = store.y_size * store.x_size\n",
        "count = store.y_size * store.x_size - 1\n",
    ),
)
