"""The compute pipeline: from a micro-op's issue to its accumulator write, one position for GEMM and ALU."""

from typing import Any

from amaranth import Cat, Const, Elaboratable, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import data

from lathe.configs import HardwareConfig
from lathe.configs.encoding import GEMM_BEGIN
from lathe.configs.instructions.gemm import MULTIPLIES
from lathe.configs.memory import STAGES
from lathe.isa.operands import operands_of
from lathe.isa.table import MemoryType, Opcode, alu_operations
from lathe.rtl.accumulators import Accumulators
from lathe.rtl.alu import VALUE_BITS, Alu
from lathe.rtl.fault import FaultCode, fault_signal
from lathe.rtl.geometry import Geometry, log2
from lathe.rtl.instruction import SignalReader, uop_view
from lathe.rtl.matrix_core import MatrixCore
from lathe.rtl.scratchpad import Scratchpad
from lathe.rtl.sequencer import OPERANDS, Sequencer
from lathe.rtl.stall import delayed
from lathe.rtl.structure import structured

CHECK = 3  # the stage in which indices are checked


def step_of(config: HardwareConfig) -> data.StructLayout:
    """What travels with a micro-op. "valid": it does something; "ends": it is its instruction's last step."""
    return data.StructLayout(
        {
            "valid": 1,
            "ends": 1,
            "pushes": 2,
            "gemm": 1,
            "reset": 1,
            **({"begin": 1} if GEMM_BEGIN in config.extensions else {}),
            "first": 1,  # reads the operand of an ALU that has it in an accumulator
            "writes": 1,  # the last one of a micro-op
            "operation": 3,
            "use_imm": 1,
            "imm": signed(16),
        }
    )


class Pipeline(Elaboratable):
    """Stages of a step issued in cycle c, p being `geometry.pipeline`:

    - c: the micro-op is read; c + 1: it goes into a register.
    - c + 2: its indices are added up, inp and wgt are read; c + 3: these go into registers, and indices are checked.
    - c + 4: products. c + 5 to c + p + 1: the adder tree. In c + p the accumulator is read, in c + p + 1 it goes into a
      register.
    - c + p + 2: the accumulator is combined. c + p + 3: the result is written.

    An accumulator comes as the micro-ops before it leave it: from the register or the cycle in which it is on its way.
    `issue` with `step` and the sequencer's micro-op and offsets begins a step. `end` with `pushes` ends an instruction.
    """

    def __init__(
        self, geometry: Geometry, sequencer: Sequencer, pads: dict[MemoryType, Scratchpad], acc: Accumulators
    ) -> None:
        self.geometry, self.sequencer, self.pads, self.acc = geometry, sequencer, pads, acc
        self.issue = Signal()
        layout = step_of(geometry.config)
        self.step = structured(layout)
        self.end = Signal()
        self.pushes = Signal(2)
        self.ending = Signal()  # an instruction's end is on its way in the next cycle
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
        places = [*([Const(0)] * CHECK), self._operands(m, stages)]
        with m.If(self.fault != FaultCode.NONE):
            m.d.sync += stages[CHECK + 1].valid.eq(0)
        for _ in range(CHECK, depth):
            places += delayed(m, 1, places[-1], reset=False)
        self._combine(m, stages, places, self._core(m, stages))
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
        """Stages 0 to 3: the indices. Returns that of the accumulator to read, in the stage that checks it."""
        sequencer, config, pads = self.sequencer, self.geometry.config, self.pads
        m.d.comb += [pads[MemoryType.UOP].r_index.eq(sequencer.uop), pads[MemoryType.UOP].r_en.eq(self.issue)]
        (word,) = delayed(m, 1, pads[MemoryType.UOP].r_data, reset=False)
        uop = uop_view(config, word)
        sums, indices = {}, {}
        for name in OPERANDS:
            (offset,) = delayed(m, 2, sequencer.offsets[name], reset=False)
            sums[name] = Signal(len(offset) + 1, name=f"{name}_sum")
            m.d.comb += sums[name].eq(uop[name] + offset)
            indices[name] = Signal.like(sums[name], name=f"{name}_index", reset_less=True)
            m.d.sync += indices[name].eq(sums[name])
        target = Signal(len(indices["src"]), reset_less=True)
        m.d.sync += target.eq(Mux(stages[2].first, sums["src"], sums["dst"]))
        reads = self._multiplies(stages[2], sums)
        m.d.comb += [
            pads[MemoryType.INP].r_index.eq(sums["src"]),
            pads[MemoryType.WGT].r_index.eq(sums["wgt"]),
            pads[MemoryType.INP].r_en.eq(reads),
            pads[MemoryType.WGT].r_en.eq(reads),
        ]
        # An ALU micro-op looks at one accumulator in each step, a GEMM at its only one: `target` in either case.
        step = stages[CHECK]
        multiplies = self._multiplies(step, indices)
        reader = SignalReader(config, indices | {"dst": target, "reset": step.reset})
        for operand in reversed(operands_of(Opcode.GEMM)):
            with m.If((step.valid if operand.used is None else multiplies) & operand.beyond.on(reader)):
                m.d.comb += self.fault.eq(operand.code)
        index = Signal(max(1, log2(config.acc_depth)))
        m.d.comb += index.eq(target)
        return index

    def _multiplies(self, step: data.View, indices: dict[str, Signal]) -> Value:
        """Whether a step reads inp and wgt."""
        reader = SignalReader(self.geometry.config, indices | {"reset": step.reset})
        return step.valid & step.gemm & MULTIPLIES.on(reader)

    def _core(self, m: Module, stages: list[data.View]) -> MatrixCore:
        """Stages 3 to p + 1: sums of products."""
        m.submodules.core = core = MatrixCore(self.geometry)
        with m.If(stages[CHECK].valid & stages[CHECK].gemm):
            m.d.sync += [
                core.inp.eq(self.pads[MemoryType.INP].r_data),
                core.wgt.eq(self.pads[MemoryType.WGT].r_data),
            ]
        products = [stages[CHECK + 1 + stage].valid & stages[CHECK + 1 + stage].gemm for stage in range(core.latency)]
        m.d.comb += core.valid.eq(Cat(*products))
        return core

    def _combine(self, m: Module, stages: list[data.View], places: list[Any], core: MatrixCore) -> None:
        """Stages p to p + 3: the accumulator is read, held, combined and written."""
        acc = self.acc
        reading, holding, combining, writing = stages[-4:]
        here, ahead, before, written_at = places[-4:]
        # Of the step that reads: whether the one or the two before it write what it reads.
        writes = [step.valid & step.writes & (index == here) for step, index in ((holding, ahead), (combining, before))]
        from_combining, from_writing = delayed(m, 1, *writes)
        value = Signal(acc.values * VALUE_BITS, reset_less=True)
        result = Signal.like(value)
        m.submodules.core_alu = alu = Alu(acc.values, alu_operations(self.geometry.config))
        begins = GEMM_BEGIN in self.geometry.config.extensions
        addend = Mux(combining.begin, 0, value) if begins else value
        sums = [(addend.word_select(each, VALUE_BITS) + total)[:VALUE_BITS] for each, total in enumerate(core.sums)]
        m.d.comb += [
            acc.r_index.eq(here),
            acc.r_en.eq(reading.valid),
            alu.take.eq(holding.valid & ~holding.first & ~holding.gemm),
            alu.use_imm.eq(holding.use_imm),
            alu.imm.eq(holding.imm),
            alu.operand.eq(value),  # what the step before has read
            alu.operation.eq(combining.operation),
            alu.multiply.eq(combining.valid & ~combining.writes & ~combining.first),
            alu.a.eq(value),
            acc.w_index.eq(written_at),
            acc.w_en.eq(writing.valid & writing.writes),
        ]
        with m.If(~combining.gemm):
            m.d.comb += result.eq(alu.result)
        with m.Elif(~combining.reset):
            m.d.comb += result.eq(Cat(*sums))
        with m.If(holding.valid):
            m.d.sync += value.eq(Mux(from_combining, result, Mux(from_writing, acc.w_data, acc.r_data)))
        with m.If(combining.valid & combining.writes):
            m.d.sync += acc.w_data.eq(result)
