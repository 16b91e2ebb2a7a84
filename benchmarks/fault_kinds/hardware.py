"""Faults of the RTL, each planted while `tiny` is elaborated; what the simulator predicts is right."""

from collections.abc import Mapping

from fault_kinds.cases import MACHINE, Case, cases
from fault_kinds.fault import Fault, Kind
from fault_kinds.nets import NETS, caught_on, collected, values_wrong
from lathe.rtl.cache import as_built
from lathe.rtl.engines import pysim
from lathe.rtl.engines.compiled.machine import Machine


def verdicts() -> dict[str, str]:
    """Build the machine anew, and see who catches it on what."""
    machine = pysim.build(as_built(MACHINE))
    return collected(cases(), lambda case: look(machine, case))


def look(machine: Machine, case: Case) -> Mapping[str, str]:
    """The nets that catch the machine on a case, each with what it says."""
    try:
        outcomes = case.run_on(machine)
    except AssertionError as error:  # the memory does not take what the RTL does, or the RTL never ends
        return {"bus": f"{case.name}: {error}"}
    except (IndexError, ValueError) as error:  # more ends than starts, or numbers that are none of the table's
        return {"crash": f"{case.name}: {error!r}"}
    nets = caught_on(case, case.right, outcomes)
    if values_wrong(case, outcomes[0].memory.pages):
        nets.add("values")
    return dict.fromkeys(nets, case.name)


def fault(name: str, module: str, before: str, after: str, harmless: str = "") -> Fault:
    return Fault(name, f"lathe.rtl.{module}", before, after, harmless)


FAULTS = (
    fault(
        "a token pushed in the cycle of a pop is lost",
        "tokens",
        "self.count.eq(self.count + self.push - self.pop)",
        "self.count.eq(self.count + (self.push & ~self.pop) - self.pop)",
    ),
    fault("the last token cannot be popped", "tokens", "self.count == 1", "self.count <= 2"),
    fault("a token that was the last is there again", "tokens", "self.count == 1", "self.count == 0"),
    fault(
        "an overflow of tokens is not seen", "tokens", "self.overflow.eq(self.push & ~self.pop", "self.overflow.eq(0"
    ),
    fault("an instruction pushes to both neighbours", "stall", "end & pushes[bit]", "end & pushes.any()"),
    fault(
        "an instruction starts without the token of the next unit",
        "stall",
        "flag & ~self.tokens[queue]",
        "flag & ~self.tokens[queue] & (queue != 3)",
    ),
    fault("a queue is full one place too early", "tally", "self.count == self.most - 1", "self.count >= self.most - 2"),
    fault("a queue takes one command too many", "command_queue", "Tally(self.depth,", "Tally(self.depth + 1,"),
    fault("a queue is never full", "command_queue", "self.full.eq(waiting.full)", "self.full.eq(0)"),
    fault(
        "a decode stage loses a command that has no room",
        "command_queue",
        "eq(port.take | ~Cat(",
        "eq(1 | port.take | ~Cat(",
    ),
    fault(
        "a command that finds no room in the decode is lost",
        "command_queue",
        "aside.eq(valid[0] & ~port.advance[0])",
        "aside.eq(0)",
    ),
    fault(
        "a command that finds no room in the decode is there twice",
        "command_queue",
        "fifo.r_en.eq(~aside)",
        "fifo.r_en.eq(~aside & port.advance[0])",
    ),
    fault(
        "a command beside the decode stages comes after the one behind it",
        "command_queue",
        "port.words[0].eq(Mux(aside, kept, fifo.r_data))",
        "port.words[0].eq(Mux(aside & ~fifo.r_valid, kept, fifo.r_data))",
    ),
    fault(
        "a unit is taken to rest while its command is decoded",
        "command_queue",
        "self.settled.eq(self.empty | port.valid)",
        "self.settled.eq(1)",
    ),
    fault(
        "the launch ends while commands are decoded",
        "command_queue",
        "self.empty.eq(self.waiting == 0)",
        "self.empty.eq(~fifo.r_valid & ~aside & ~port.valid)",
    ),
    fault(
        "what is decoded last does not wait for its command",
        "transfer",
        "with m.If(self.port.advance[2]):",
        "with m.If(self.port.advance[1]):",
    ),
    fault(
        "how often loops run is that of the command behind",
        "sequencer",
        "count == 1, advance),",
        "count == 1, self.port.advance[-2]),",
    ),
    fault(
        "a word that comes as the head leaves is lost",
        "fifo",
        "self.w_en & (behind | ~free))",
        "self.w_en & ~free)",
    ),
    fault(
        "a word overtakes those that wait",
        "fifo",
        "Mux(behind, ram.r_data, self.w_data)",
        "Mux(self.w_en, self.w_data, ram.r_data)",
    ),
    fault(
        "a word written into an empty queue is read as it was",
        "fifo",
        "Ram(width, depth, forward=True)",
        "Ram(width, depth)",
    ),
    fault(
        "micro-ops that follow each other read an accumulator as it was",
        "accumulators",
        "parts=parts, forward=True)",
        "parts=parts, forward=False)",
    ),
    fault(
        "out is not written by LOAD acc",
        "accumulators",
        "out.w_en.eq(Cat(",
        "out.w_en.eq(self.w_en.replicate(out_parts) & Cat(",
    ),
    fault("LOAD acc8 extends with zeros", "accumulators", "replicated(byte[7], 24)", "replicated(byte[7] & 0, 24)"),
    fault(
        "padding in acc keeps what the bus shows",
        "accumulators",
        "content.eq(Mux(load.pad, padding, whole))",
        "content.eq(whole)",
    ),
    fault(
        "a beat of LOAD acc writes all parts of an element",
        "accumulators",
        "(piece == i // spread) | load.pad",
        "(piece == i // spread) | True",
    ),
    fault("out takes the second byte of a value", "accumulators", "chosen(value, 32)[:8]", "chosen(value, 32)[8:16]"),
    fault(
        "STORE reads the wrong bank",
        "accumulators",
        "self.banking.bank_of(index - first)",
        "self.banking.bank_of(index)",
    ),
    fault(
        "STORE reads the bank of the beat behind",
        "accumulators",
        "delayed(m, 1, self.banking.bank_of(index - first), reset=False)[0]",
        "self.banking.bank_of(index - first)",
    ),
    fault("the ALU shifts right without the sign", "alu", "a[-1].replicate", "(a[-1] & 0).replicate"),
    fault("a right shift by 32 is none", "alu", "beyond.any()))", "beyond[1:].any()))"),
    fault("a left shift by 33 is one by 1", "alu", "~beyond.all()", "~beyond[1:].all()"),
    fault("a product lacks one of its halves", "alu", "(crosses[0] + crosses[1])[:HALF]", "crosses[0]"),
    fault(
        "a product is taken of the step that writes",
        "alu",
        "alu.multiply.eq(combining.valid & ~combining.writes",
        "alu.multiply.eq(combining.valid & combining.writes",
    ),
    fault("MUL does not wait for its product", "sequencer", "slow.eq(steps != 1 +", "slow.eq(steps == 9 +"),
    fault(
        "min and max are swapped where operands are equal in sign",
        "alu",
        "MIN: Mux(a < b, a, b)",
        "MIN: Mux(a.as_unsigned() < b.as_unsigned(), a, b)",
    ),
    fault(
        "an immediate is not sign-extended",
        "alu",
        "Mux(self.use_imm, self.imm, self",
        "Mux(self.use_imm, self.imm.as_unsigned(), self",
    ),
    fault(
        "the arbiter prefers the master that it granted last",
        "arbiter",
        "(number - 1 - distance) % count",
        "(number - distance) % count",
    ),
    fault(
        "one read too many is in flight",
        "arbiter",
        "Tally(geometry.config.memory.outstanding_reads,",
        "Tally(geometry.config.memory.outstanding_reads + 1,",
    ),
    fault("an address that the bus does not take at once changes", "arbiter", "held.eq(~self.ar_ready)", "held.eq(0)"),
    fault(
        "a read that is in flight is not counted when another ends",
        "arbiter",
        "self.ar_valid & self.ar_ready, self.r_valid",
        "self.ar_valid & self.ar_ready & ~(self.r_valid & self.r_last), self.r_valid",
    ),
    fault("beats go to the master that was granted last", "arbiter", "self.r_id == number", "latest[number]"),
    fault(
        "the first burst of a chain crosses 4 KiB", "burst", "room.eq(Mux(page > most, most, page))", "room.eq(most)"
    ),
    fault(
        "a later burst of a chain crosses 4 KiB",
        "burst",
        "room.eq(Mux((to_page > most) & (to_page <= 2 * most), to_page - most, most))",
        "room.eq(most)",
    ),
    fault(
        "the burst limit is counted from the address",
        "burst",
        "room.eq(Mux(page > most, most, page))",
        "room.eq(Mux(page > most, most + (at != 0), page))",
    ),
    fault(
        "a burst that ends within a beat lacks that beat",
        "burst",
        "(at + size + (self.geometry.bus_bytes - 1))",
        "(at + size)",
    ),
    fault("the last burst of a chain is as long as the others", "burst", "Mux(ends, left, room)", "room"),
    fault(
        "credits of a burst are given back but for one beat",
        "address_side",
        "returned.eq(gone + 1)",
        "returned.eq(gone)",
    ),
    fault(
        "a burst is asked for when one beat has no room",
        "address_side",
        "used + self.wanted <= self.beats",
        "used + self.wanted <= self.beats + 1",
    ),
    fault(
        "room is set aside that becomes free in the same cycle",
        "address_side",
        "self.fits.eq(used + self.wanted <= self.beats)",
        "self.fits.eq(used - returned + self.wanted <= self.beats)",
    ),
    fault("a burst is asked for without room", "address_side", "cutter.valid & credits.fits &", "cutter.valid &"),
    fault(
        "a burst is cut a cycle after the grant of the one before",
        "address_side",
        "(~self.valid | self.take)",
        "~self.valid",
    ),
    fault(
        "rows go on from the row before without the stride",
        "burst",
        "following.eq(self.from_address + self.stride_bytes)",
        "following.eq(self.from_address)",
    ),
    fault("the third row is the second one", "burst", "following.eq(following + stride)", "following.eq(following)"),
    fault(
        "LOAD acc does not wait for the pipeline", "compute", "issued = pipeline.ending | (issuing", "issued = (issuing"
    ),
    fault("LOAD acc does not wait at all", "compute", "master.hold.eq(~settled)", "master.hold.eq(0)"),
    fault("LOAD acc does not fetch ahead", "compute", "(free | (is_load & ~loading)) & ~held", "free & ~held"),
    fault("LOAD acc starts beside another", "compute", "(is_load & ~loading)", "is_load"),
    fault(
        "FINISH does not wait for the pipeline", "compute", "(Cause.DRAIN, is_finish & ~drained)", "(Cause.DRAIN, 0)"
    ),
    fault(
        "a load of compute is done with its last step",
        "compute",
        "WRITE_BACK + self.geometry.config.timing.write_latency",
        "1",
    ),
    fault(
        "the second launch counts on",
        "control",
        "counter.eq(0)",
        "counter.eq(counter)",
    ),
    fault("FINISH of the launch before counts", "control", "finished.eq(0),", ""),
    fault("padding between rows is left out", "data_side", "m.d.sync += pads.eq(now.gap)", "m.d.sync += pads.eq(0)"),
    fault("padding behind the rows is left out", "data_side", "self.last.eq(now.tail == 0)", "self.last.eq(1)"),
    fault(
        "rows all begin at the first one's byte of a beat",
        "data_side",
        "next_offset.eq(first_offset + now.stride_bytes)",
        "next_offset.eq(first_offset)",
    ),
    fault(
        "the last beat of a row writes all of its bytes",
        "data_side",
        "write.size.eq(Mux(chain_ends, rest, room))",
        "write.size.eq(room)",
    ),
    fault(
        "a transfer that starts as another ends waits a cycle",
        "data_side",
        "advance = self.last | ~here",
        "advance = ~here",
    ),
    fault(
        "fetch asks for its stream from the beginning of a page",
        "fetch",
        "cutter.from_address.eq(self.address)",
        "cutter.from_address.eq(self.address & ~4095)",
    ),
    fault("fetch dispatches into a full queue", "fetch", "self.dispatch.eq(~full)", "self.dispatch.eq(1)"),
    fault("lanes of a beat begin with the first", "lanes", "(candidate >= first) & ", ""),
    fault(
        "elements that wrap over the banks stay in their row",
        "lanes",
        "banking.row_of(origin) + carry",
        "banking.row_of(origin)",
    ),
    fault(
        "loads are done a cycle late",
        "load",
        "delayed(m, write_latency, data_side",
        "delayed(m, write_latency + 1, data_side",
    ),
    fault(
        "load takes one more instruction than may be under way",
        "data_side",
        "Tally(pending,",
        "Tally(pending + 1,",
    ),
    fault(
        "the launch ends before the last load does",
        "load",
        "(data_side.count == 0) & (coming == 0)",
        "data_side.count == 0",
    ),
    fault(
        "weights have no sign",
        "matrix_core",
        "wgt = self.wgt.word_select(column * self.block_in + term, 8).as_signed()",
        "wgt = self.wgt.word_select(column * self.block_in + term, 8)",
    ),
    fault(
        "the last product is left out",
        "matrix_core",
        "for term in range(self.block_in)]",
        "for term in [*range(self.block_in - 1), 0]]",
    ),
    fault(
        "a GEMM's inputs are read by the index of its weights",
        "pipeline",
        "pad.r_index.eq(sums[operand.index])",
        'pad.r_index.eq(sums["wgt"])',
    ),
    fault(
        "the loops do not move the micro-op's indices",
        "pipeline",
        "sums[name].eq(uop[name] + offset)",
        "sums[name].eq(uop[name])",
    ),
    fault(
        "the ALU takes the operand before the one that it read",
        "alu",
        "holding.valid & ~holding.first & ~holding.gemm",
        "holding.valid & (holding.first | holding.of.alu.use_imm) & ~holding.gemm",
    ),
    fault(
        "an accumulator is what the micro-op before the last left",
        "pipeline",
        "Mux(from_combining, result, Mux(from_writing",
        "Mux(from_combining, acc.w_data, Mux(from_writing",
    ),
    fault(
        "of two micro-ops that write an accumulator the older one is read",
        "pipeline",
        "Mux(from_combining, result, Mux(from_writing, registered, acc.r_data))",
        "Mux(from_writing, registered, Mux(from_combining, result, acc.r_data))",
    ),
    fault(
        "an accumulator on its way into the memory is read as it was",
        "pipeline",
        "Mux(from_writing, registered, acc.r_data)",
        "acc.r_data",
    ),
    fault(
        "a micro-op reads what those before it write, wherever that goes",
        "pipeline",
        "[writes & (index == here) for writes",
        "[writes for writes",
    ),
    fault(
        "an operand that is read counts as one that is written",
        "pipeline",
        "(step.valid & step.writes, index)",
        "(step.valid, index)",
    ),
    fault("reset adds like a GEMM", "pipeline", "with m.Elif(~combining.of.gemm.reset):", "with m.Elif(1):"),
    fault(
        "begin adds like a GEMM",
        "pipeline",
        "Mux(combining.of.gemm.begin, 0, value)",
        "Mux(combining.of.gemm.begin, value, value)",
    ),
    fault(
        "an index beyond inp or wgt is not seen",
        "pipeline",
        "self._looks_at(step, opcode, operand, indices) & beyond",
        "0 & beyond",
    ),
    fault(
        "padding of inp and wgt keeps what the bus shows",
        "scratchpad",
        "content.eq(Mux(write.pad, padding, source))",
        "content.eq(source)",
    ),
    fault(
        "inp and wgt are both written by each LOAD",
        "scratchpad",
        "write.en & (write.memory == memory)",
        "write.en",
    ),
    fault(
        "the outer loop does not begin its inner one anew",
        "sequencer",
        "row + factor_out",
        "now + factor_out",
    ),
    fault("a row's offset is not remembered", "sequencer", "m.d.sync += row.eq(sums[0])", "m.d.sync += row.eq(row)"),
    fault(
        "the last micro-op is left out",
        "sequencer",
        "(fields.uop_end - fields.uop_bgn)[",
        "(fields.uop_end - fields.uop_bgn - (fields.uop_end > fields.uop_bgn + 1))[",
    ),
    fault(
        "a loop has a pass less when it has three",
        "sequencer",
        "self.single, self.left == 2)",
        "self.single, (self.left == 2) | (self.left == 3))",
    ),
    fault(
        "an ALU operand takes one step from the second micro-op on",
        "sequencer",
        "Mux(micro_op_last, ~tensor & ~slow,",
        "Mux(micro_op_last, ~slow,",
    ),
    fault("halves are rounded up", "rounding", "shifted[0] & (under | shifted[1])", "shifted[0]"),
    fault("what is far below a half is not seen", "rounding", "bits[:start].any()", "bits[:start].all()"),
    fault("a quotient without room is not bounded", "rounding", "beyond.eq(above |", "beyond.eq(above &"),
    fault("a shift of 8 is none", "rounding", "self.shift[_FINE:]", "(self.shift[_FINE:] & 6)"),
    fault("a bias is not added", "scaling", "value.eq(self.value + self.bias)", "value.eq(self.value)"),
    fault("the second operand is left out", "scaling", "before.eq(total)", "before.eq(0)"),
    fault("the second operand is added in the step before", "rescale", "fields.add & ~first", "fields.add & first"),
    fault(
        "a sum lacks a carry between halves",
        "scaling",
        "inner.eq(products.crosses[0] + products.crosses[1])",
        "inner.eq(products.crosses[0])",
    ),
    fault(
        "a zero point above the greatest result bounds it",
        "rescale",
        "Mux(least > high, high, least)",
        "least",
    ),
    fault("relu is always on", "rescale", "Mux(fields.relu, fields.zero_point,", "Mux(1, fields.zero_point,"),
    fault("what is looked up is always signed", "rescale", "& ~fields.lookup_unsigned", ""),
    fault("all tables are the first", "rescale", 'if "table" in', 'if "tables" in'),
    fault("every sum is looked up", "rescale", "Mux(fields.lookup, Cat", "Mux(1, Cat"),
    fault(
        "lanes look up in the table of the lane beside them",
        "scratchpad",
        "lane = value % lanes",
        "lane = (value + 1) % lanes",
    ),
    fault("the second operand has the parameters of the first", "rescale", "index | reading.first", "index"),
    fault(
        "parameters are those of the micro-op before",
        "rescale",
        "len(place.stages) - 4 - CHECK, place.indices",
        "len(place.stages) - 3 - CHECK, place.indices",
    ),
    fault("an accumulator is read before its write", "late_writes", "[: self.steps]", "[: self.steps - 1]"),
    fault("a late result comes a step early", "late_writes", "range(steps):", "range(steps - 1):"),
    fault("a late result is not seen by what comes next", "pipeline", "writes[0] & late.holds)", "writes[0] & 0)"),
    fault("a step writes at once what comes late", "late_writes", "(writes & ~reading[self.name])", "writes"),
    fault(
        "an instruction has one trailing step less",
        "sequencer",
        "last_next.eq(self.left == 2)",
        "last_next.eq(self.left == 3)",
    ),
    fault(
        "a STORE writes whole beats",
        "store",
        "(Const((1 << bus) - 1, bus) >> spare) << offset",
        "Const((1 << bus) - 1, bus)",
    ),
    fault(
        "a STORE is done when its data are sent",
        "write_channel",
        "self.responded.eq(self.b_valid)",
        "self.responded.eq(sent & self.bus_w_last)",
    ),
    fault(
        "the end of a STORE that waits for one before is lost",
        "store",
        "moved.eq(now | (ended != 0))",
        "moved.eq(now)",
    ),
    fault(
        "store takes one more instruction than may be under way",
        "store",
        "Tally(self.pending,",
        "Tally(self.pending + 1,",
    ),
    fault(
        "a burst goes to the address of the one behind it",
        "store",
        "delayed(m, PACK - 2, packed_address, packed_beats, reset=False)",
        "delayed(m, PACK - 2, requests.address, requests.beats, reset=False)",
    ),
    fault(
        "a beat is taken from the scratchpad a cycle early",
        "store",
        "w_last, complete = second",
        "w_last, complete = first",
    ),
    fault(
        "store packs when addresses have no room",
        "write_channel",
        "self.crowded.eq(addresses.level >= ADDRESSES - ON_THE_WAY)",
        "self.crowded.eq(0)",
    ),
    fault("a unit that works is taken to rest", "accelerator", "~complete & idle &", "~complete &"),
    fault(
        "rows with pads between them are one chain",
        "transfer",
        "((fields.x_pad_0 == 0) & (fields.x_pad_1 == 0))",
        "1",
    ),
    fault(
        "the row of padding above is not as wide as its pads",
        "transfer",
        "fields.y_pad_0 * width",
        "fields.y_pad_0 * fields.x_size",
    ),
    fault(
        "a block beyond its scratchpad is not refused",
        "transfer",
        "[ranges[kind] for kind",
        "[ranges[kind] & 0 for kind",
    ),
    fault("a LOAD of no columns has steps", "transfer", "~moves | (elements == 0)", "elements == 0"),
    fault("write data come before their address", "write_channel", "data.r_valid & (open_bursts != 0)", "data.r_valid"),
    fault(
        "the launch ends before the last response",
        "write_channel",
        "~addresses.r_valid & (unanswered == 0) & ~self.complete",
        "1",
    ),
    fault(
        "queues keep their instructions when the machine is cleared",
        "accelerator",
        '_queue"] = cleared(queue)',
        '_queue"] = queue',
    ),
    fault("tokens of the launch before stay", "accelerator", "counter.load.eq(control.start)", "counter.load.eq(0)"),
    fault(
        "the arbiter is not cleared",
        "accelerator",
        "m.submodules[name] = cleared(getattr(self, name))",
        'm.submodules[name] = self.arbiter if name == "arbiter" else cleared(getattr(self, name))',
        "the machine is cleared when no read is in flight, and then fetch alone asks first, whoever was granted last",
    ),
)

HARDWARE = Kind("RTL", FAULTS, NETS, verdicts)
