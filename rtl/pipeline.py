"""The compute pipeline: from a micro-op's issue to its accumulator write, with the same stages for all instructions."""

from typing import Any

from amaranth import Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib import data

from lathe.configs.memory import STAGES
from lathe.isa.operands import Operand, extra_latency, operands_of
from lathe.isa.table import MemoryType, Opcode
from lathe.rtl.accumulators import Accumulators
from lathe.rtl.alu import VALUE_BITS
from lathe.rtl.derived_widths import Geometry, log2
from lathe.rtl.execute_stage import ExecuteStage
from lathe.rtl.fault import FaultCode, fault_signal
from lathe.rtl.functional_units import UNITS
from lathe.rtl.instruction import uop_view
from lathe.rtl.matrix_core import MatrixCore
from lathe.rtl.pipeline_payload import StepReader, step_of
from lathe.rtl.scratchpad import LookupTables, Scratchpad
from lathe.rtl.sequencer import OPERANDS, Sequencer
from lathe.rtl.stall import delayed
from lathe.rtl.struct_signal import structured
from lathe.rtl.write_hazards import CHECK, WRITING, LateWrites


class Pipeline(Elaboratable):
    """Executes steps; a micro-op takes one or more. With p = `geometry.pipeline`, for a step issued in cycle c:

    - c: the micro-op is read; c + 1: it goes into a register.
    - c + 2: its indices are added up, inp and wgt are read; c + 3: these go into registers, and indices are checked.
    - c + 4: products. c + 5 to c + p + 1: the adder tree. In c + p the accumulator is read, in c + p + 1 it goes into a
      register.
    - c + p + 2: the accumulator is combined with the operands. c + p + 3: the result is written.

    A result with a longer latency, as its instruction's row says, is written so many cycles later, in the slot of a
    step issued so much later, which writes nothing itself: one of the same instruction, or a trailing step of it.

    Accumulators are forwarded: a step reads what all earlier micro-ops write, also if that has not been written yet.
    `issue` with `step` and the sequencer's micro-op and offsets issues a step. `end` with `pushes` ends an instruction.
    `commit` with `committed`: a micro-op of the instruction of that step is executed in this cycle.
    """

    def __init__(
        self,
        geometry: Geometry,
        sequencer: Sequencer,
        pads: dict[MemoryType, Scratchpad],
        tables: LookupTables | None,
        acc: Accumulators,
    ) -> None:
        self.geometry, self.sequencer, self.pads, self.tables, self.acc = geometry, sequencer, pads, tables, acc
        self.opcodes = sequencer.opcodes
        self.indices = {
            name: Signal(len(offset) + 1, name=f"{name}_index", reset_less=True)
            for name, offset in sequencer.offsets.items()
        }
        self.target = Signal(len(self.indices["src"]), reset_less=True)  # the index of the accumulator to read
        self.following = Signal.like(self.target)  # that of the step after
        self.issue = Signal()
        layout = step_of(geometry.config)
        self.step = structured(layout)
        self.end = Signal()
        self.pushes = Signal(2)
        self.ending = Signal()  # the last step of an instruction is in the pipeline in the next cycle
        self.commit = Signal()  # a micro-op is executed in this cycle
        self.committed = structured(layout)
        self.fault = fault_signal()

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        depth = self.geometry.pipeline + STAGES
        layout = step_of(self.geometry.config)
        stages = [self.step, *(structured(layout, name=f"stage{number}") for number in range(1, depth + 1))]
        for number in range(1, depth + 1):
            m.d.sync += stages[number].eq(stages[number - 1])
        with m.If(~self.issue):
            m.d.sync += [stages[1].valid.eq(0), stages[1].ends.eq(0)]
        targets = [*([Const(0)] * CHECK), self._operands(m, stages)]
        for _ in range(CHECK, depth):
            targets += delayed(m, 1, targets[-1], reset=False)
        late = self._late(m, stages, targets)
        self._checked(m, stages, targets, late)
        self._combine(m, stages, targets, late, self._core(m, stages))
        final = stages[depth]
        m.d.comb += self.ending.eq((self.issue & self.step.ends) | Cat(*(stage.ends for stage in stages[1:-1])).any())
        m.d.comb += [
            self.end.eq(final.ends),
            self.pushes.eq(final.pushes),
            self.commit.eq(self.acc.w_en),
            self.committed.eq(final),
        ]
        return m

    def _operands(self, m: Module, stages: list[data.View]) -> Signal:
        """Stages 0 to 3: the indices. Returns the index of the accumulator to read, in the stage that checks it."""
        sequencer, config, pads = self.sequencer, self.geometry.config, self.pads
        m.d.comb += [pads[MemoryType.UOP].r_index.eq(sequencer.uop), pads[MemoryType.UOP].r_en.eq(self.issue)]
        (word,) = delayed(m, 1, pads[MemoryType.UOP].r_data, reset=False)
        uop = uop_view(config, word)
        sums = {}
        for name in OPERANDS:
            (offset,) = delayed(m, 2, sequencer.offsets[name], reset=False)
            sums[name] = Signal(len(offset) + 1, name=f"{name}_sum")
            m.d.comb += sums[name].eq(uop[name] + offset)
            m.d.sync += self.indices[name].eq(sums[name])
        m.d.comb += self.following.eq(Mux(stages[2].first, sums["src"], sums["dst"]))
        m.d.sync += self.target.eq(self.following)
        for opcode, operand in self._scratchpad_operands():
            if not extra_latency(config, opcode):
                pad = pads[operand.memory]
                reads = self._looks_at(stages[2], opcode, operand, sums)
                m.d.comb += [pad.r_index.eq(sums[operand.index]), pad.r_en.eq(reads)]
        index = Signal(max(1, log2(config.acc_depth)))
        m.d.comb += index.eq(self.target)
        return index

    def _scratchpad_operands(self) -> list[tuple[Opcode, Operand]]:
        """The operands in scratchpads other than acc, in the order of priority of their faults."""
        operands = [(opcode, each) for opcode in self.opcodes for each in operands_of(opcode)]
        return [(opcode, each) for opcode, each in operands if each.memory is not MemoryType.ACC]

    def _looks_at(self, step: data.View, opcode: Opcode, operand: Operand, indices: dict[str, Signal]) -> Value:
        """Whether a step reads an operand in a scratchpad other than acc: the last step of a micro-op does."""
        name = opcode.name.lower()
        last = step.valid & step[name] & ~step.first
        if operand.used is None:
            return last
        return last & operand.used.evaluate(StepReader(self.geometry.config, step.of[name], indices))

    def _checked(self, m: Module, stages: list[data.View], targets: list[Any], late: LateWrites | None) -> None:
        """Stage 3: range checks of the indices; the first that fails gives the fault."""
        step, config = stages[CHECK], self.geometry.config
        # Each step reads one accumulator, that at index `target`, whether it is the dst or the src of the micro-op.
        (dst,) = (each for each in operands_of(self.opcodes[0]) if each.row.written)
        indices = {**self.indices, dst.index: self.target}
        faults = [(dst.code, step.valid & dst.out_of_range.evaluate(StepReader(config, None, indices)))]
        for opcode, operand in self._scratchpad_operands():
            beyond = operand.out_of_range.evaluate(StepReader(config, None, indices))
            faults.append((operand.code, self._looks_at(step, opcode, operand, indices) & beyond))
        if late is not None:
            faults.append((FaultCode.ACC_REUSE, late.hazard(m, stages, targets, self.following)))
        for code, condition in reversed(faults):
            with m.If(condition):
                m.d.comb += self.fault.eq(code)
        with m.If(self.fault != FaultCode.NONE):
            m.d.sync += stages[CHECK + 1].valid.eq(0)

    def _core(self, m: Module, stages: list[data.View]) -> MatrixCore:
        """Stages 3 to p + 1: the matrix core."""
        m.submodules.core = core = MatrixCore(self.geometry)
        with m.If(stages[CHECK].valid & stages[CHECK].gemm):
            m.d.sync += [core.inp.eq(self.pads[MemoryType.INP].r_data), core.wgt.eq(self.pads[MemoryType.WGT].r_data)]
        products = [stages[CHECK + 1 + stage].valid & stages[CHECK + 1 + stage].gemm for stage in range(core.latency)]
        m.d.comb += core.valid.eq(Cat(*products))
        return core

    def _late(self, m: Module, stages: list[data.View], targets: list[Any]) -> LateWrites | None:
        """The writes of late results, on machines with an instruction that has such results."""
        config = self.geometry.config
        trailing = [(opcode, extra_latency(config, opcode)) for opcode in self.opcodes]
        slow = [(opcode, steps) for opcode, steps in trailing if steps]
        assert len(slow) <= 1, f"{slow} have late results, and the pipeline supports one such instruction"
        for opcode, steps in slow:
            # Where a step reads its accumulator in the cycle of the check, a fault must keep it from writing, too.
            keeps = self.fault == FaultCode.NONE if len(stages) - WRITING == CHECK else Const(1)
            return LateWrites(m, opcode, steps, stages, targets, keeps)
        return None

    def _combine(
        self, m: Module, stages: list[data.View], targets: list[Any], late: LateWrites | None, core: MatrixCore
    ) -> None:
        """Stages p to p + 3: the accumulator is read, held, combined with operands, and written."""
        acc = self.acc
        reading, holding, combining, writing = stages[-4:]
        here = targets[-4]
        # The writes of the steps that hold, combine and write: whether there is one, and its accumulator index.
        if late is None:
            coming = [(step.valid & step.writes, index) for step, index in zip(stages[-3:], targets[-3:], strict=True)]
        else:
            coming = late.coming
        # Forwarding: whether one of the two preceding steps, or a late write in its slot, writes what the step reads.
        writes = [writes & (index == here) for writes, index in coming[:2]]
        from_combining, from_writing = delayed(m, 1, writes[0] if late is None else writes[0] & ~late.holds, writes[1])
        value = Signal(acc.values * VALUE_BITS, reset_less=True)
        result = Signal.like(value)
        stage = ExecuteStage(self.geometry, self.pads, self.tables, self.indices, stages, value)
        in_time = [each for each in self.opcodes if each in UNITS and (late is None or each is not late.opcode)]
        begins = "begin" in combining.of.gemm.shape().members
        addend = Mux(combining.of.gemm.begin, 0, value) if begins else value
        sums = [(addend.word_select(each, VALUE_BITS) + total)[:VALUE_BITS] for each, total in enumerate(core.sums)]
        m.d.comb += [acc.r_index.eq(here), acc.r_en.eq(reading.valid)]
        results = {opcode: UNITS[opcode](m, stage) for opcode in in_time}
        m.d.comb += [acc.w_index.eq(coming[-1][1]), acc.w_en.eq(coming[-1][0])]
        with m.If(~combining.gemm):
            own = results[in_time[0]]
            for opcode in in_time[1:]:
                own = Mux(combining[opcode.name.lower()], results[opcode], own)
            m.d.comb += result.eq(own)
        with m.Elif(~combining.of.gemm.reset):
            m.d.comb += result.eq(Cat(*sums))
        registered: Value = acc.w_data
        written: Value = result
        if late is not None:
            # Not on the paths of the other units' results and of the memory's output, which arrive late in the cycle.
            landing = UNITS[late.opcode](m, stage)
            from_late, from_writing = delayed(m, 1, writes[0] & late.holds, writes[1] | (writes[0] & late.holds))
            registered = Mux(from_late, landing, registered)
            written = Mux(late.lands, landing, result)
        with m.If(holding.valid):
            m.d.sync += value.eq(Mux(from_combining, result, Mux(from_writing, registered, acc.r_data)))
        with m.If(coming[1][0]):
            m.d.sync += acc.w_data.eq(written)
