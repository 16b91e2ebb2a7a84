"""The compute unit: executes micro-ops, LOADs of the scratchpads that only compute reads, and FINISH."""

from amaranth import Elaboratable, Module, Mux, Signal

from lathe.configs.memory import WRITE_BACK
from lathe.isa.table import MemoryType, Opcode, Unit
from lathe.rtl.accumulators import Accumulators
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.dma_descriptor import TransferDecoder
from lathe.rtl.fault import FaultCode, fault_signal
from lathe.rtl.instruction import StageReader, instruction_view
from lathe.rtl.pipeline import Pipeline
from lathe.rtl.pipeline_payload import step_of, travelling
from lathe.rtl.read_master import ReadMaster
from lathe.rtl.scratchpad import LookupTables, Scratchpad
from lathe.rtl.sequencer import Sequencer
from lathe.rtl.stall import Activity, Cause, CommandPort, delayed
from lathe.rtl.struct_signal import structured


class Compute(Elaboratable):
    """Executes in order. Instructions with micro-ops follow each other without bubbles; FINISH waits for the drain.

    A LOAD starts while the preceding instruction still issues its steps: its address side requests bursts at once, and
    its data side writes as soon as the pipeline has drained.
    """

    def __init__(self, geometry: Geometry, inp: Scratchpad, wgt: Scratchpad) -> None:
        self.geometry = geometry
        self.command = CommandPort(Unit.COMPUTE)
        self.memories = geometry.loaded_by(Unit.COMPUTE)
        self.master = ReadMaster(geometry, self.memories, 1)
        self.port = self.master.port
        self.write = self.master.write
        own = [memory for memory in self.memories if memory not in _READ_OTHERWISE]
        self.pads = {memory: Scratchpad(geometry, memory, self.write) for memory in own}
        self.acc = Accumulators(geometry, self.write)
        self.sequencer = Sequencer(geometry, self.command)
        pads = {**self.pads, MemoryType.INP: inp, MemoryType.WGT: wgt}
        self.tables = LookupTables(geometry, self.write) if MemoryType.LUT in self.memories else None
        self.pipeline = Pipeline(geometry, self.sequencer, pads, self.tables, self.acc)
        self.stop = Signal()
        self.idle = Signal()
        self.finished = Signal()  # a FINISH completes in this cycle
        self.activity = Activity()
        self.fault = fault_signal()

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.submodules.master = master = self.master
        for memory, pad in self.pads.items():
            m.submodules[memory.name.lower()] = pad
        if self.tables is not None:
            m.submodules.lut = self.tables
        m.submodules.acc = self.acc
        m.submodules.sequencer = sequencer = self.sequencer
        m.submodules.pipeline = pipeline = self.pipeline
        m.submodules.decoder = decoder = TransferDecoder(self.geometry, Opcode.LOAD, self.memories, self.command)
        command, activity, data_side = self.command, self.activity, master.data_side
        fields = instruction_view(self.geometry.config, Opcode.FINISH, command.word)
        is_load, is_finish = self._decode(m)
        loading, finishing, drained, settled, free, ready = (
            Signal(name=name, init=name in ("drained", "settled", "free")) for name in _STATES
        )
        write_back = WRITE_BACK + self.geometry.config.timing.write_latency
        loaded_next, load_pushes_next = delayed(m, write_back - 1, data_side.last, data_side.pushes)
        loaded, load_pushes = delayed(m, 1, loaded_next, load_pushes_next)
        cause, held = command.stall_cause(m, fields.pop_prev, fields.pop_next, [(Cause.DRAIN, is_finish & ~drained)])
        issuing = sequencer.active
        bad = fault_signal()
        with m.If(is_load & decoder.overruns):
            m.d.comb += bad.eq(FaultCode.SRAM_RANGE)
        with m.Elif(~is_load & ~is_finish & sequencer.uop_overrun):
            m.d.comb += bad.eq(FaultCode.UOP_RANGE)
        with m.If(ready & (bad != FaultCode.NONE)):
            m.d.comb += self.fault.eq(bad)
        with m.Else():
            m.d.comb += self.fault.eq(pipeline.fault)
        m.d.comb += [
            master.transfer.eq(decoder.transfer),
            master.stop.eq(self.stop),
            master.hold.eq(~settled),
            sequencer.go.eq(~self.stop),
            ready.eq((free | (is_load & ~loading)) & ~held & ~self.stop),
            command.take.eq(ready & (bad == FaultCode.NONE)),
            master.start.eq(command.take & is_load),
            sequencer.start.eq(command.take & ~is_load & ~is_finish),
            activity.start.eq(command.take),
            activity.end.eq(pipeline.end | loaded | finishing),
            activity.busy.eq((issuing & ~self.stop) | finishing | data_side.step),
            activity.wait.eq(loading & ~data_side.step & ~issuing),
            activity.retire.eq(sequencer.last | finishing | data_side.last),
            activity.stall.eq(free & held),
            activity.cause.eq(cause),
            self.finished.eq(finishing),
            self.idle.eq(drained),
        ]
        m.d.sync += finishing.eq(command.take & is_finish)
        # `free` and `drained` are registers, computed one cycle ahead, since the next instruction waits for them.
        with m.If(command.take):
            m.d.sync += free.eq(is_finish | (~is_load & sequencer.single))
        with m.Elif(loading & ~loaded):
            m.d.sync += free.eq(loaded_next)
        with m.Elif(issuing & ~sequencer.last):
            m.d.sync += free.eq(sequencer.last_next)
        with m.Else():
            m.d.sync += free.eq(1)
        # `settled`: the pipeline is empty; `drained`: and no LOAD is in progress.
        issued = pipeline.ending | (issuing & ~sequencer.last) | (command.take & ~is_load)
        m.d.sync += [settled.eq(~issued), drained.eq(~issued & ~master.start & ~(loading & ~loaded))]
        with m.If(master.start):
            m.d.sync += loading.eq(1)
        with m.Elif(loaded):
            m.d.sync += loading.eq(0)
        self._issue(m)
        pushes = Signal(2)
        finish_pushes = Signal(2)
        with m.If(command.take):
            m.d.sync += finish_pushes.eq(fields.push_prev | (fields.push_next << 1))
        m.d.comb += pushes.eq(Mux(loaded, load_pushes, Mux(finishing, finish_pushes, pipeline.pushes)))
        command.push(m, activity.end, pushes)
        return m

    def _decode(self, m: Module) -> tuple[Signal, Signal]:
        """Whether the port's command is a LOAD, and whether it is a FINISH, decoded one stage ahead."""
        reader = StageReader(m, self.geometry.config, Opcode.FINISH, self.command.words[-2])
        opcode = reader.view.opcode
        return (
            reader.registered("is_load", opcode == Opcode.LOAD, self.command.advance[-1]),
            reader.registered("is_finish", opcode == Opcode.FINISH, self.command.advance[-1]),
        )

    def _issue(self, m: Module) -> None:
        """Drive the payload of the steps of the current instruction."""
        config, word = self.geometry.config, self.command.word
        sequencer, pipeline = self.sequencer, self.pipeline
        now = structured(step_of(config))
        with m.If(sequencer.start):
            head = instruction_view(config, Opcode.FINISH, word)
            m.d.sync += now.pushes.eq(head.push_prev | (head.push_next << 1))
            for opcode, runs in sequencer.runs.items():
                name, fields = opcode.name.lower(), instruction_view(config, opcode, word)
                m.d.sync += now[name].eq(runs)
                with m.If(runs):
                    m.d.sync += [now.of[name][field].eq(fields[field]) for field in travelling(config, opcode)]
        m.d.comb += [
            pipeline.issue.eq(sequencer.active & sequencer.go),
            pipeline.step.eq(now),
            pipeline.step.valid.eq(sequencer.valid),
            pipeline.step.ends.eq(sequencer.last),
            pipeline.step.first.eq(sequencer.first),
            pipeline.step.writes.eq(sequencer.writes),
        ]


# Memory types whose scratchpads have classes of their own.
_READ_OTHERWISE = (MemoryType.ACC, MemoryType.ACC8, MemoryType.LUT)
_STATES = ("loading", "finishing", "drained", "settled", "free", "ready")
