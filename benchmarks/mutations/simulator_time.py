"""Faults of the simulator in timing: cycles of instructions, tokens, queues, bus, memory, and reports of faults."""

from mutations.fault import faults_of

fault = faults_of("lathe")

FAULTS = (
    fault(
        "an ALU micro-op with an operand takes one cycle",
        "sim.timing_ops",
        "row.issue_cycles.evaluate(reader), steps)",
        "1, steps)",
    ),
    fault(
        "MUL takes as long as the other operations",
        "sim.timing_ops",
        "row.issue_cycles.evaluate(reader), steps)",
        'np.minimum(row.issue_cycles.evaluate(reader), 2 - columns["use_imm"]), steps)',
    ),
    fault(
        "RESCALE has no trailing cycles",
        "sim.timing_ops",
        "np.where(executed, _trailing(cfg, columns), 0)",
        "np.where(executed, 0, 0)",
    ),
    fault(
        "RESCALE of no micro-ops has trailing cycles, too",
        "sim.timing_ops",
        "np.where(executed, _trailing(cfg, columns), 0)",
        "_trailing(cfg, columns)",
    ),
    fault(
        "an accumulator is available a cycle early",
        "isa.raw_hazards",
        "(usage.issue_cycles - 1) > late:",
        "(usage.issue_cycles - 1) >= late:",
    ),
    fault(
        "hazards of an added operand are ignored",
        "isa.raw_hazards",
        "or operand not in usage.read:",
        "or operand is not usage.written:",
    ),
    fault(
        "hazards between outer iterations are ignored",
        "isa.raw_hazards",
        "(numbers >= distance) &",
        "(numbers % (count * inner) >= distance) &",
    ),
    fault("rows with padding between are one chain", "sim.timing_ops", "(stride == x) & (gap == 0)", "stride == x"),
    fault(
        "padding to the left takes no cycles",
        "sim.timing_ops",
        "np.where(reads, left, bottom * row)",
        "np.where(reads, 0, bottom * row)",
    ),
    fault(
        "an instruction of no micro-ops takes no cycle",
        "sim.timing_ops",
        "np.where(executed, _trailing(cfg, columns), 0), 1)",
        "np.where(executed, _trailing(cfg, columns), 0), 0)",
    ),
    fault(
        "a token is there a cycle early",
        "sim.timeline",
        "self.tokens[queue].append(end + 1)",
        "self.tokens[queue].append(end)",
    ),
    fault(
        "a token is pushed twice",
        "sim.timeline",
        "self.tokens[queue].append(end + 1)",
        "self.tokens[queue].extend([end + 1] * 2)",
    ),
    fault(
        "the second token of an instruction is lost",
        "sim.timeline",
        "in self.commands[instruction].pushes:",
        "in self.commands[instruction].pushes[:1]:",
    ),
    fault(
        "a command arrives a cycle early",
        "sim.timeline",
        "self.dispatch[instruction] + 1 + DECODE",
        "self.dispatch[instruction] + DECODE",
    ),
    fault("GEMM ends a cycle late", "sim.compute", "last_step + self.pipeline,", "last_step + self.pipeline + 1,"),
    fault("the pipeline is drained a cycle early", "sim.compute", "self.drained = end + 1", "self.drained = end"),
    fault(
        "LOAD acc does not wait for the pipeline",
        "sim.compute",
        "first_step = max(start + 1, self.drained)",
        "first_step = start + 1",
    ),
    fault(
        "LOAD acc does not fetch ahead",
        "sim.compute",
        "self.load_free if kind is TRANSFER else self.boundary",
        "self.boundary",
    ),
    fault("LOAD acc starts during another", "sim.compute", "self.load_free = end", "pass"),
    fault(
        "FINISH does not wait for the pipeline",
        "sim.compute",
        "(DRAIN, self.drained) if kind is FINISH else None",
        "None",
    ),
    fault(
        "one load too many is in flight",
        "sim.load",
        "if self.next >= self.pending:",
        "if self.next > self.pending:",
    ),
    fault(
        "a load's first cycle does not wait for the previous load",
        "sim.load",
        "first_step = max(start, boundary) + 1",
        "first_step = start + 1",
    ),
    fault("a load ends with its last cycle", "sim.load", "last_step + self.write_latency)", "last_step)"),
    fault(
        "a command queue is one deeper",
        "sim.fetch",
        "needed = len(queue) - self.queue_depth",
        "needed = len(queue) - self.queue_depth - 1",
    ),
    fault(
        "an entry of a command queue is free a cycle early",
        "sim.fetch",
        "dispatched = starts[needed] + 1",
        "dispatched = starts[needed]",
    ),
    fault("fetch requests bursts as long as its FIFO", "sim.fetch", "max(1, fifo_beats // 2)", "fifo_beats"),
    fault(
        "one read too many is in flight",
        "sim.memory_port",
        "self.reads = memory.outstanding_reads",
        "self.reads = memory.outstanding_reads + 1",
    ),
    fault(
        "the memory's latency is a cycle longer",
        "sim.memory_port",
        "start = accepted + self.latency",
        "start = accepted + self.latency + 1",
    ),
    fault(
        "writes never delay reads",
        "sim.memory_port",
        "if self.shared:\n            self.free[1 - direction] = end",
        "if False:\n            self.free[1 - direction] = end",
    ),
    fault(
        "reads never delay writes",
        "sim.memory_port",
        "if self.shared:\n            self.free[WRITE] = free",
        "if False:\n            self.free[WRITE] = free",
    ),
    fault(
        "the arbiter's round robin is reversed",
        "sim.engine",
        "in _ROUND_ROBIN[port.last_master]:",
        "in (*_ROUND_ROBIN[port.last_master][1::-1], port.last_master):",
    ),
    fault(
        "a read waits for a write of the same cycle",
        "sim.engine",
        "if store.request < grant:",
        "if store.request <= grant:",
    ),
    fault(
        "bursts cross 4 KiB",
        "sim.transfer",
        "page = (address | (PAGE_BYTES - 1)) + 1",
        "page = (address | (2 * PAGE_BYTES - 1)) + 1",
    ),
    fault(
        "the burst limit is counted from the address",
        "sim.transfer",
        "full = ((address >> bus_shift) + limit) << bus_shift",
        "full = address + (limit << bus_shift)",
    ),
    fault(
        "the FIFO space of a read burst is free a cycle early",
        "sim.read_dma",
        "(step + 2, apart, beats, count)",
        "(step + 1, apart, beats, count)",
    ),
    fault("a transfer's first burst is cut a cycle early", "sim.read_dma", "start + 1 + CUT", "start + CUT"),
    fault(
        "the stream's first burst is cut a cycle early", "sim.fetch", "self.earliest = 1 + CUT", "self.earliest = CUT"
    ),
    fault(
        "the FIFO space of fetch's burst is free a cycle early",
        "sim.fetch",
        "max(self.earliest, left + 2)",
        "max(self.earliest, left + 1)",
    ),
    fault("cycles of padding between rows are not counted", "sim.read_dma", "* apart + padding", "* apart"),
    fault(
        "equal bursts are granted in the cycle of another master's",
        "sim.memory_port",
        "if granted < horizon:",
        "if granted <= horizon:",
    ),
    fault("a write burst's address is accepted a cycle early", "sim.store", "beats - 1 + PACK", "beats - 2 + PACK"),
    fault(
        "the FIFO space of a write burst is free a cycle early",
        "sim.store",
        "self.first_step = end + 2",
        "self.first_step = end + 1",
    ),
    fault("a store's first burst is cut a cycle early", "sim.store", "start + 1 + CUT", "start + CUT"),
    fault(
        "compute's loads end early",
        "sim.engine",
        "timing.write_latency + WRITE_BACK",
        "timing.write_latency",
    ),
    fault(
        "the launch ends with its last instruction",
        "sim.engine",
        "max(self.timeline.end) + 1 + END",
        "max(self.timeline.end) + 1",
    ),
    fault("a store ends with its last beat", "sim.store", "apart + self.response_latency)", "apart)"),
    fault(
        "two stores end in one cycle", "sim.store", "max(response, self.ends[-1] + 1)", "max(response, self.ends[-1])"
    ),
    fault(
        "the cause of a wait is the first, not the last", "sim.stall_accounting", "last = cause", "last = last or cause"
    ),
    fault(
        "a wait begins a cycle late",
        "sim.stall_accounting",
        "counts[cause] += until - begin",
        "counts[cause] += until - begin - 1",
    ),
    fault(
        "data move in the order of the stream",
        "sim.run_launch",
        'order = np.argsort(starts, kind="stable")',
        "order = np.arange(len(starts))",
    ),
    fault(
        "an index fault is reported a cycle early",
        "sim.executor",
        "starts[index] + INDEX_STAGE + fault.step",
        "starts[index] + INDEX_STAGE + fault.step - 1",
    ),
    fault(
        "an index fault of an ALU operand is reported in its first cycle",
        "sim.uop_plan_cache",
        "* steps + min(position, steps - 1)",
        "* steps",
    ),
    fault(
        "a token overflow is detected one token late",
        "sim.fault",
        "if counts.max(initial=0) > MOST_TOKENS:",
        "if counts.max(initial=0) > MOST_TOKENS + 1:",
    ),
    fault(
        "a deadlock is reported a cycle late",
        "sim.fault",
        "cycle = max(1, last + 1, engine.fetch.stuck, *seen)",
        "cycle = max(1, last + 1, engine.fetch.stuck, *seen) + 1",
    ),
    fault(
        "a deadlock is reported before the commands are decoded",
        "sim.fault",
        "engine.fetch.stuck, *seen)",
        "engine.fetch.stuck)",
    ),
    fault(
        "a fault of fetch has priority over those of units",
        "sim.fault",
        "yield DetectedFault(fetch.refused, Rank.FETCH",
        "yield DetectedFault(fetch.refused, Rank.READ",
    ),
    fault(
        "a bus error is reported for another beat",
        "sim.bus_fault_injection",
        "beats - 1 - wrong",
        "beats - 2 - wrong",
    ),
)
