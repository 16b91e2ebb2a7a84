"""The compute pipeline: from a micro-op's issue to its accumulator write, one position for GEMM and ALU."""

from amaranth import Cat, Elaboratable, Module, Mux, Signal, signed
from amaranth.lib import data

from lathe.configs import HardwareConfig
from lathe.configs.encoding import GEMM_BEGIN
from lathe.configs.instructions.gemm import MULTIPLIES
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
from lathe.rtl.structure import structured


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
            "first": 1,  # of the two steps of a tensor operand: reads the operand
            "operation": 3,
            "use_imm": 1,
            "imm": signed(16),
        }
    )


class Pipeline(Elaboratable):
    """Stages of a step issued in cycle c, P being the pipeline's depth:

    - c: the micro-op is read.
    - c + 1: its indices are added up and checked, inp and wgt are read.
    - c + 2: products. c + 3 to c + P − 1: the adder tree. In c + P − 1 the accumulator is read.
    - c + P: the accumulator is combined and written; a read in this cycle sees what is written.

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
        self.busy = Signal()  # an instruction's end is on its way
        self.commit = Signal()  # a micro-op is executed in this cycle
        self.committed = structured(layout)
        self.fault = fault_signal()

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        depth = self.geometry.pipeline
        layout = step_of(self.geometry.config)
        stages = [self.step, *(structured(layout, name=f"stage{number}") for number in range(1, depth + 1))]
        for number in range(1, depth + 1):
            m.d.sync += stages[number].eq(stages[number - 1])
        with m.If(~self.issue):
            m.d.sync += [stages[1].valid.eq(0), stages[1].ends.eq(0)]
        index = self._operands(m, stages[1])
        with m.If(self.fault != FaultCode.NONE):
            m.d.sync += stages[2].valid.eq(0)
        m.submodules.core = core = MatrixCore(self.geometry)
        products = [stages[2 + stage].valid & stages[2 + stage].gemm for stage in range(core.latency)]
        m.d.comb += [
            core.inp.eq(self.pads[MemoryType.INP].r_data),
            core.wgt.eq(self.pads[MemoryType.WGT].r_data),
            core.valid.eq(Cat(*products)),
        ]
        # The accumulator's index, from stage 2 on; the read is in stage P − 1, the write in stage P.
        places = [index]
        for _ in range(2, depth + 1):
            place = Signal.like(index)
            m.d.sync += place.eq(places[-1])
            places.append(place)
        final = stages[depth]
        acc = self.acc
        m.d.comb += [
            acc.r_index.eq(places[depth - 2]),
            acc.r_en.eq(stages[depth - 1].valid),
            acc.w_index.eq(places[depth - 1]),
            acc.w_en.eq(final.valid & ~final.first),
            self.end.eq(final.ends),
            self.pushes.eq(final.pushes),
            self.busy.eq(Cat(*(stage.ends for stage in stages[1:])).any()),
            self.commit.eq(acc.w_en),
            self.committed.eq(final),
        ]
        self._combine(m, final, core)
        return m

    def _operands(self, m: Module, step: data.View) -> Signal:
        """Stage 1: the indices. Returns that of the accumulator to read."""
        sequencer, config = self.sequencer, self.geometry.config
        pads = self.pads
        m.d.comb += [pads[MemoryType.UOP].r_index.eq(sequencer.uop), pads[MemoryType.UOP].r_en.eq(self.issue)]
        uop = uop_view(config, pads[MemoryType.UOP].r_data)
        indices = {}
        for name in OPERANDS:
            offset = Signal.like(sequencer.offsets[name], name=f"{name}_offset_1")
            m.d.sync += offset.eq(sequencer.offsets[name])
            indices[name] = Signal(len(offset) + 1, name=f"{name}_index")
            m.d.comb += indices[name].eq(uop[name] + offset)
        target = Signal(len(indices["src"]))
        multiplies = Signal()
        reader = SignalReader(config, indices | {"dst": target, "reset": step.reset})
        m.d.comb += [
            target.eq(Mux(step.first, indices["src"], indices["dst"])),
            multiplies.eq(step.valid & step.gemm & MULTIPLIES.on(reader)),
            pads[MemoryType.INP].r_index.eq(indices["src"]),
            pads[MemoryType.WGT].r_index.eq(indices["wgt"]),
            pads[MemoryType.INP].r_en.eq(multiplies),
            pads[MemoryType.WGT].r_en.eq(multiplies),
        ]
        # An ALU micro-op looks at one accumulator in each step, a GEMM at its only one: `target` in either case.
        for operand in reversed(operands_of(Opcode.GEMM)):
            with m.If((step.valid if operand.used is None else multiplies) & operand.beyond.on(reader)):
                m.d.comb += self.fault.eq(operand.code)
        index = Signal(max(1, log2(config.acc_depth)))
        m.d.comb += index.eq(target)
        return index

    def _combine(self, m: Module, final: data.View, core: MatrixCore) -> None:
        """Stage P: what is written."""
        acc = self.acc
        m.submodules.core_alu = alu = Alu(acc.values, alu_operations(self.geometry.config))
        operand = Signal(acc.values * VALUE_BITS)
        with m.If(final.valid & final.first):
            m.d.sync += operand.eq(acc.r_data)
        begins = GEMM_BEGIN in self.geometry.config.extensions
        addend = Mux(final.begin, 0, acc.r_data) if begins else acc.r_data
        sums = [(addend.word_select(value, VALUE_BITS) + total)[:VALUE_BITS] for value, total in enumerate(core.sums)]
        m.d.comb += [
            alu.operation.eq(final.operation),
            alu.use_imm.eq(final.use_imm),
            alu.imm.eq(final.imm),
            alu.a.eq(acc.r_data),
            alu.operand.eq(operand),
        ]
        with m.If(~final.gemm):
            m.d.comb += acc.w_data.eq(alu.result)
        with m.Elif(final.reset):
            m.d.comb += acc.w_data.eq(0)
        with m.Else():
            m.d.comb += acc.w_data.eq(Cat(*sums))
