"""Faults of the RTL, each planted while `tiny` is elaborated; what the simulator predicts is right."""

from collections.abc import Mapping

from fault_kinds.cases import MACHINE, Case, cases
from fault_kinds.fault import Fault, Kind
from fault_kinds.nets import NETS, caught_on, collected, values_wrong
from lathe.rtl.engines import pysim
from lathe.rtl.engines.build import OUTSIDE
from lathe.rtl.engines.compiled.machine import Machine


def verdicts() -> dict[str, str]:
    """Build the machine anew, and see who catches it on what."""
    machine = pysim.build(MACHINE.with_(**OUTSIDE))
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
    fault("the last token cannot be popped", "tokens", "self.count != 0", "self.count > 1"),
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
    fault("a queue is full one place too early", "fifo", "self.level == self.depth)", "self.level == self.depth - 1)"),
    fault("a queue takes one word too many", "fifo", "self.full.eq(self.level == self.depth)", "self.full.eq(0)"),
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
        "self.r_origin.eq(self.banking.bank_of(index - first))",
        "self.r_origin.eq(self.banking.bank_of(index))",
    ),
    fault("the ALU shifts right without the sign", "alu", "a >> Mux(far", "a.as_unsigned() >> Mux(far"),
    fault("a right shift by 32 is none", "alu", "b >= VALUE_BITS", "b > VALUE_BITS"),
    fault("a left shift by 32 is one by 0", "alu", "b <= -VALUE_BITS", "b < -VALUE_BITS"),
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
        "(last + 1 + step) % len(ports)",
        "(last + step) % len(ports)",
    ),
    fault(
        "one read too many is in flight",
        "arbiter",
        "most = self.geometry.config.memory.outstanding_reads",
        "most = self.geometry.config.memory.outstanding_reads + 1",
    ),
    fault("an address that the bus does not take at once changes", "arbiter", "held.eq(~self.ar_ready)", "held.eq(0)"),
    fault(
        "a read that is in flight is not counted when another ends",
        "arbiter",
        "inflight.eq(inflight + granted - ended)",
        "inflight.eq(inflight + (granted & ~ended) - ended)",
    ),
    fault("beats go to the master that was granted last", "arbiter", "self.r_id == number", "latest == number"),
    fault("bursts cross 4 KiB", "burst", "room.eq(Mux(to_page < to_limit, to_page, to_limit))", "room.eq(to_limit)"),
    fault(
        "the burst limit is counted from the address",
        "burst",
        "to_limit = self.limit * bus - offset",
        "to_limit = self.limit * bus",
    ),
    fault("a burst that ends within a beat lacks that beat", "burst", "self.size + (bus - 1)", "self.size"),
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
        "rows go on from the row before without the stride",
        "address_side",
        "following.eq(row + stride)",
        "following.eq(row)",
    ),
    fault("LOAD acc does not wait for the pipeline", "compute", "~finishing & ~pipeline.busy)", "~finishing)"),
    fault("FINISH does not wait for the pipeline", "compute", "(is_load | is_finish) & ~drained", "is_load & ~drained"),
    fault(
        "a load of compute is done with its last step",
        "compute",
        "self.geometry.config.timing.write_latency, data_side.last",
        "0, data_side.last",
    ),
    fault(
        "the second launch counts on",
        "control",
        "counter.eq(Mux(self.start, 0, counter) + event)",
        "counter.eq(counter + event)",
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
        "port.address.eq(self.address), rest",
        "port.address.eq(self.address & ~4095), rest",
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
        "load",
        "data_side.count == self.pending)",
        "data_side.count > self.pending)",
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
        'pads[MemoryType.INP].r_index.eq(indices["src"])',
        'pads[MemoryType.INP].r_index.eq(indices["wgt"])',
    ),
    fault(
        "the loops do not move the micro-op's indices",
        "pipeline",
        "indices[name].eq(uop[name] + offset)",
        "indices[name].eq(uop[name])",
    ),
    fault(
        "the ALU takes the operand before the one that it read",
        "pipeline",
        "with m.If(final.valid & final.first):",
        "with m.If(final.valid & ~final.first):",
    ),
    fault("reset adds like a GEMM", "pipeline", "with m.Elif(final.reset):", "with m.Elif(final.reset & 0):"),
    fault(
        "begin adds like a GEMM",
        "pipeline",
        "Mux(final.begin, 0, acc.r_data)",
        "Mux(final.begin, acc.r_data, acc.r_data)",
    ),
    fault(
        "an index beyond inp or wgt is not seen",
        "pipeline",
        "operand.used is None else multiplies) &",
        "operand.used is None else 0) &",
    ),
    fault(
        "padding of inp and wgt keeps what the bus shows",
        "scratchpad",
        "ram.w_data.eq(Mux(write.pad, padding, source))",
        "ram.w_data.eq(source)",
    ),
    fault(
        "inp and wgt are both written by each LOAD",
        "scratchpad",
        "write.en & (write.memory == self.memory)",
        "write.en",
    ),
    fault(
        "the outer loop does not begin its inner one anew",
        "sequencer",
        "Mux(inner_last, row + factor_out, now + factor_in)",
        "Mux(inner_last, now + factor_out, now + factor_in)",
    ),
    fault("a row's offset is not remembered", "sequencer", "m.d.sync += row.eq(following)", "m.d.sync += row.eq(row)"),
    fault(
        "the last micro-op is left out",
        "sequencer",
        "uop_last.eq(self.uop + 1 == end)",
        "uop_last.eq((self.uop + 2 == end) | (self.uop + 1 == end))",
    ),
    fault(
        "an ALU operand takes one step",
        "sequencer",
        "iteration_last.eq(self.second | ~self.tensor)",
        "iteration_last.eq(1)",
    ),
    fault(
        "a STORE writes whole beats",
        "store",
        "(Const((1 << bus) - 1, bus) >> spare) << self.out_offset",
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
        "under_way == self.pending)",
        "under_way > self.pending)",
    ),
    fault(
        "rows with pads between them are one chain",
        "transfer",
        "(fields.x_stride == fields.x_size) & (gap == 0)",
        "fields.x_stride == fields.x_size",
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
