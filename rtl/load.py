"""The load unit: executes LOADs of inp and wgt."""

from amaranth import Elaboratable, Module, Signal

from lathe.isa.table import Opcode, Unit
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.dma_descriptor import TransferDecoder
from lathe.rtl.fault import FaultCode, fault_signal
from lathe.rtl.instruction import instruction_view
from lathe.rtl.read_master import ReadMaster
from lathe.rtl.stall import Activity, Cause, CommandPort, delayed


class Load(Elaboratable):
    """Starts loads as commands and tokens arrive, up to `timing.dma_pending` at a time; pushes tokens at their ends."""

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.pending = geometry.config.timing.dma_pending
        self.command = CommandPort(Unit.LOAD)
        self.memories = geometry.loaded_by(Unit.LOAD)
        self.master = ReadMaster(geometry, self.memories, self.pending)
        self.port = self.master.port
        self.write = self.master.write
        self.stop = Signal()
        self.idle = Signal()
        self.activity = Activity()
        self.fault = fault_signal()

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.submodules.master = master = self.master
        m.submodules.decoder = decoder = TransferDecoder(self.geometry, Opcode.LOAD, self.memories, self.command)
        command, activity, data_side = self.command, self.activity, master.data_side
        fields = instruction_view(self.geometry.config, Opcode.LOAD, command.word)
        cause, held = command.stall_cause(m, fields.pop_prev, fields.pop_next, [(Cause.MEMORY, data_side.full)])
        ready = Signal()
        left = Signal.like(data_side.count)
        m.d.comb += [
            master.transfer.eq(decoder.transfer),
            master.stop.eq(self.stop),
            ready.eq(~held & master.idle & ~self.stop),
            command.take.eq(ready & ~decoder.overruns),
            master.start.eq(command.take),
            left.eq(data_side.count - data_side.last),
            activity.start.eq(command.take),
            activity.busy.eq(data_side.step),
            activity.wait.eq(data_side.wait),
            activity.retire.eq(data_side.last),
            activity.stall.eq((left == 0) & held),
            activity.cause.eq(cause),
        ]
        with m.If(ready & decoder.overruns):
            m.d.comb += self.fault.eq(FaultCode.SRAM_RANGE)
        write_latency = self.geometry.config.timing.write_latency
        end, pushes = delayed(m, write_latency, data_side.last, data_side.pushes)
        command.push(m, end, pushes)
        m.d.comb += activity.end.eq(end)
        # Ends that are delayed count as work, so that the launch does not end before them.
        coming = Signal(range(write_latency + 2))
        m.d.sync += coming.eq(coming + data_side.last - end)
        m.d.comb += self.idle.eq((data_side.count == 0) & (coming == 0))
        return m
