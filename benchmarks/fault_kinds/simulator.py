"""Faults of the simulator; the RTL that it is compared with is right."""

from collections.abc import Mapping

from fault_kinds.cases import Case, calm_cases
from fault_kinds.fault import Fault, Kind
from fault_kinds.nets import NETS, caught_on, collected, pages_after, values_wrong
from lathe.sim import ReplayResult


def verdicts() -> dict[str, str]:
    """Simulate the cases, and see who catches it on what."""
    return collected(calm_cases(), look)


def look(case: Case) -> Mapping[str, str]:
    """The nets that catch the simulator on a case, each with what it says."""
    right, ran = case.right, case.ran  # made before a fault is planted
    assert len(right) == len(ran)
    try:
        results = case.simulated()
    except NameError:  # that would be a mistake in the fault
        raise
    except Exception as error:  # whatever else breaks is caught
        return {"crash": f"{case.name}: {error!r}"}
    nets = caught_on(case, results, ran)
    (first, *_) = results
    if isinstance(first, ReplayResult) and values_wrong(case, pages_after(case, 0, first)):
        nets.add("values")
    return dict.fromkeys(nets, case.name)


def fault(name: str, module: str, before: str, after: str, harmless: str = "") -> Fault:
    return Fault(name, f"lathe.{module}", before, after, harmless)


FAULTS = (
    fault(
        "destinations that come twice count once",
        "sim.contraction",
        "if np.bincount(targets).max() == 1:",
        "if np.bincount(targets).max() <= 2:",
    ),
    fault(
        "rows and columns are swapped",
        "sim.contraction",
        "        return Role.ROW\n    return Role.COLUMN",
        "        return Role.COLUMN\n    return Role.ROW",
    ),
    fault(
        "sums are longer than float32 holds",
        "sim.gemm",
        "most_terms=max(1, EXACT_TERMS // cfg.block_in)",
        "most_terms=EXACT_TERMS * 64",
    ),
    fault(
        "the outer loop of a reset moves as the inner one",
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
        "of products that begin one accumulator the first one counts",
        "sim.micro_ops",
        "np.unique(values[::-1], return_index=True)\n    places: Ints = np.sort(len(values) - 1 - from_behind)",
        "np.unique(values, return_index=True)\n    places: Ints = np.sort(from_behind)",
    ),
    fault(
        "an ALU destination that comes twice counts once",
        "sim.in_levels",
        "if np.bincount(dst).max() == 1:",
        "if np.bincount(dst).max() <= 2:",
    ),
    fault(
        "an ALU operand is read before the micro-op that writes it",
        "sim.in_levels",
        "found = max(found, after_write[source])",
        "pass",
    ),
    fault(
        "an ALU operand is read after the micro-op that overwrites it",
        "sim.in_levels",
        "max(after_write[target], reads[target])",
        "after_write[target]",
    ),
    fault(
        "an immediate is not sign-extended",
        "isa.micro_op_meanings",
        "instruction.imm if",
        "instruction.imm & 0xFFFF if",
    ),
    fault(
        "ALU operands are swapped",
        "isa.micro_op_meanings",
        'alu(instruction.alu_opcode, of["dst"], operand)',
        'alu(instruction.alu_opcode, np.broadcast_to(operand, of["dst"].shape).astype(np.int32), of["dst"])',
    ),
    fault("a left shift by 32 is one by 31", "isa.arithmetic", "lowest = max(-width,", "lowest = max(1 - width,"),
    fault(
        "shifts right have no sign",
        "isa.arithmetic",
        "shift = np.right_shift if places >= 0 else np.left_shift",
        "left, shift = (left.view('u4'), np.right_shift) if places >= 0 else (left, np.left_shift)",
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
        "element_bytes(cfg, memory), dtype)",
        "element_bytes(cfg, memory), np.dtype('u1') if memory == 5 else dtype)",
    ),
    fault(
        "the stride of a LOAD is an element too long",
        "sim.dma",
        "load.x_stride * element_bytes)",
        "(load.x_stride + 1) * element_bytes)",
    ),
    fault(
        "the base of a STORE is an element too far",
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
        "of rows that overlap the first stays",
        "sim.dram",
        "for row in range(rows):\n            target[row]",
        "for row in reversed(range(rows)):\n            target[row]",
    ),
    fault("a plan is found without its micro-ops", "sim.micro_op_plans", "words.tobytes(),", "len(words),"),
    fault(
        "a plan is found without its factors",
        "sim.micro_op_plans",
        "loops_of(instruction))",
        "loops_of(instruction)[:3])",
    ),
    fault(
        "the inner loop moves as the outer one",
        "sim.micro_ops",
        "[None, :, None] * self.inner",
        "[None, :, None] * self.out",
    ),
    fault(
        "the first index beyond a scratchpad is found a micro-op late",
        "sim.micro_ops",
        "int(np.argmax(found))",
        "int(np.argmax(found)) + 1",
    ),
    fault(
        "an ALU micro-op with an operand takes one step",
        "sim.commands",
        "row.steps.on(reader), steps)",
        "1, steps)",
    ),
    fault(
        "MUL takes as long as the other operations",
        "sim.commands",
        "row.steps.on(reader), steps)",
        'np.minimum(row.steps.on(reader), 2 - columns["use_imm"]), steps)',
    ),
    fault(
        "RESCALE has no steps at its end",
        "sim.commands",
        "np.where(executed, _trailing(cfg, columns), 0)",
        "np.where(executed, 0, 0)",
    ),
    fault(
        "RESCALE of no micro-ops has steps at its end, too",
        "sim.commands",
        "np.where(executed, _trailing(cfg, columns), 0)",
        "_trailing(cfg, columns)",
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
    fault("mantissas have no sign", "isa.arithmetic", "words >> SHIFT_BITS", "(words & 0xFFFFFFFF) >> SHIFT_BITS"),
    fault(
        "an added operand has the mantissa of the first",
        "isa.micro_op_meanings",
        'biases, factors = _parameters(of["wgt|1"])',
        'biases, _ = _parameters(of["wgt|1"])',
    ),
    fault(
        "an added operand has the parameters of the first",
        "sim.in_levels",
        "run_of(grids[each][chosen] | 1)",
        "run_of(grids[each][chosen])",
    ),
    fault(
        "the zero point is added before rounding",
        "isa.micro_op_meanings",
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
        "of a range that is empty the lower end is taken",
        "isa.micro_op_meanings",
        "np.minimum(np.maximum(shift_right_to_even(sums, shifts) + instruction.zero_point, low), high)",
        "np.maximum(np.minimum(shift_right_to_even(sums, shifts) + instruction.zero_point, high), low)",
    ),
    fault("tables have 128 rows", "isa.micro_op_meanings", "values & 255, axis", "values & 127, axis"),
    fault(
        "what is looked up always has a sign", "isa.micro_op_meanings", "if instruction.lookup_unsigned:", "if False:"
    ),
    fault(
        "all look-ups are in the first table",
        "isa.operands",
        "int(getattr(instruction, block.name)) * block.elements",
        "0 * block.elements",
    ),
    fault(
        "an accumulator is there a step early", "isa.reuse", "(usage.steps - 1) > late:", "(usage.steps - 1) >= late:"
    ),
    fault(
        "an added operand may be one that is not there yet",
        "isa.reuse",
        "or operand not in usage.read:",
        "or operand is not usage.written:",
    ),
    fault(
        "accumulators of the outer iteration before are not looked for",
        "isa.reuse",
        "(numbers >= distance) &",
        "(numbers % (count * inner) >= distance) &",
    ),
    fault("rows with pads between them are one chain", "sim.commands", "(stride == x) & (gap == 0)", "stride == x"),
    fault(
        "pads to the left take no steps",
        "sim.commands",
        "np.where(reads, left, bottom * row)",
        "np.where(reads, 0, bottom * row)",
    ),
    fault(
        "an instruction of no micro-ops takes no step",
        "sim.commands",
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
        "a command is there a cycle early",
        "sim.timeline",
        "self.dispatch[instruction] + 1 + DECODE",
        "self.dispatch[instruction] + DECODE",
    ),
    fault("GEMM is done a cycle late", "sim.compute", "last_step + self.pipeline,", "last_step + self.pipeline + 1,"),
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
        "self.load_free if command.kind is Kind.TRANSFER else self.boundary",
        "self.boundary",
    ),
    fault("LOAD acc starts beside another", "sim.compute", "self.load_free = end", "pass"),
    fault(
        "FINISH does not wait for the pipeline",
        "sim.compute",
        "(StallCause.DRAIN, self.drained) if command.kind is Kind.FINISH else None",
        "None",
    ),
    fault(
        "one load more than may be is under way",
        "sim.load",
        "if self.next >= self.pending:",
        "if self.next > self.pending:",
    ),
    fault(
        "a load's first step does not wait for the one before",
        "sim.load",
        "first_step = max(start, boundary) + 1",
        "first_step = start + 1",
    ),
    fault("a load ends with its last step", "sim.load", "last_step + self.write_latency)", "last_step)"),
    fault(
        "a command queue is one deeper",
        "sim.fetch",
        "behind = len(queue) - self.queue_depth",
        "behind = len(queue) - self.queue_depth - 1",
    ),
    fault("a place in a command queue is free a cycle early", "sim.fetch", "starts[behind] + 1)", "starts[behind])"),
    fault("fetch asks for bursts as long as its FIFO", "sim.fetch", "max(1, fifo_beats // 2)", "fifo_beats"),
    fault(
        "one read more is in flight",
        "sim.port",
        "[-1] * memory.outstanding_reads",
        "[-1] * (memory.outstanding_reads + 1)",
    ),
    fault(
        "the memory's latency is one more",
        "sim.port",
        "start = accepted + self.latency",
        "start = accepted + self.latency + 1",
    ),
    fault(
        "writes never hold up reads",
        "sim.port",
        "if self.shared:\n            self.free[1 - direction] = end",
        "if False:\n            self.free[1 - direction] = end",
    ),
    fault(
        "reads never hold up writes",
        "sim.port",
        "if self.shared:\n            self.free[WRITE] = free",
        "if False:\n            self.free[WRITE] = free",
    ),
    fault(
        "the arbiter goes round the other way",
        "sim.engine",
        "master = (master + 1) % MASTERS\n            if",
        "master = (master + 2) % MASTERS\n            if",
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
        "the room of a read burst is free a cycle early",
        "sim.reader",
        "request = taken + 2\n            grant",
        "request = taken + 1\n            grant",
    ),
    fault("a transfer's first burst is cut a cycle early", "sim.reader", "start + 1 + CUT", "start + CUT"),
    fault(
        "the stream's first burst is cut a cycle early", "sim.fetch", "self.earliest = 1 + CUT", "self.earliest = CUT"
    ),
    fault(
        "the room of fetch's burst is free a cycle early",
        "sim.fetch",
        "max(self.earliest, left + 2)",
        "max(self.earliest, left + 1)",
    ),
    fault("steps of padding between rows are forgotten", "sim.reader", "last_step += behind", "last_step += 0"),
    fault("a write burst's address is accepted a cycle early", "sim.store", "beats - 1 + PACK", "beats - 2 + PACK"),
    fault(
        "the room of a write burst is free a cycle early",
        "sim.store",
        "self.first_step = end + 2",
        "self.first_step = end + 1",
    ),
    fault("a store's first burst is cut a cycle early", "sim.store", "start + 1 + CUT", "start + CUT"),
    fault(
        "compute's loads are done a cycle early",
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
    fault("a store is done with its last beat", "sim.store", "apart + self.response_latency)", "apart)"),
    fault(
        "two stores end in one cycle", "sim.store", "max(response, self.ends[-1] + 1)", "max(response, self.ends[-1])"
    ),
    fault("the cause of a wait is the first, not the last", "sim.stall", "last = cause", "last = last or cause"),
    fault(
        "a wait begins a cycle late",
        "sim.stall",
        "counts[cause] += until - begin",
        "counts[cause] += until - begin - 1",
    ),
    fault(
        "data move in the order of the stream",
        "sim.launch",
        'order = np.argsort(starts, kind="stable")',
        "order = np.arange(len(starts))",
    ),
    fault(
        "an index fault is told a cycle early",
        "sim.executor",
        "starts[index] + INDEX_STAGE + fault.step",
        "starts[index] + INDEX_STAGE + fault.step - 1",
    ),
    fault(
        "an index fault of an ALU's operand is told of its first step",
        "sim.micro_op_plans",
        "* steps + min(place, steps - 1)",
        "* steps",
    ),
    fault("GEMM operations count resets", "sim.counters", "executed[gemm & ~reset]", "executed[gemm]"),
    fault(
        "a token too many is one in 65,536",
        "sim.fault",
        "if counts.max(initial=0) > MOST_TOKENS:",
        "if counts.max(initial=0) > MOST_TOKENS + 1:",
    ),
    fault(
        "a deadlock is told a cycle late",
        "sim.fault",
        "cycle = max(1, last + 1, engine.fetch.stuck, *seen)",
        "cycle = max(1, last + 1, engine.fetch.stuck, *seen) + 1",
    ),
    fault(
        "a deadlock is told before the commands are decoded",
        "sim.fault",
        "engine.fetch.stuck, *seen)",
        "engine.fetch.stuck)",
    ),
    fault(
        "fetch is heard before the units",
        "sim.fault",
        "yield Noticed(fetch.refused, Rank.FETCH",
        "yield Noticed(fetch.refused, Rank.READ",
    ),
    fault("an error of the bus is told of the beat after", "sim.bus_errors", "beats - 1 - wrong", "beats - 2 - wrong"),
)

SIMULATOR = Kind("simulator", FAULTS, NETS, verdicts)
