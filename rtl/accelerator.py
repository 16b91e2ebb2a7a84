"""Top level of the accelerator: units, command queues, token counters, memory port and control."""

from amaranth import Cat, Elaboratable, Module, ResetInserter, Signal

from lathe.configs import HardwareConfig
from lathe.isa.table import MemoryType, TokenQueue, Unit
from lathe.rtl.arbiter import ReadArbiter
from lathe.rtl.command_queue import CommandQueue
from lathe.rtl.compute import Compute
from lathe.rtl.control import Control
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.fault import FaultCode, fault_signal, first_fault
from lathe.rtl.fetch import Fetch
from lathe.rtl.load import Load
from lathe.rtl.ports import BusPorts, HostPorts, TracePorts
from lathe.rtl.scratchpad import Scratchpad
from lathe.rtl.stall import CommandPort
from lathe.rtl.store import Store
from lathe.rtl.tokens import TokenCounter


class Accelerator(Elaboratable):
    """The accelerator of a configuration. `bus` is its AXI4 manager, `host` its AXI4-Lite subordinate.

    `trace` shows what each unit does in each cycle; synthesis removes it when it is not connected. Raises
    :class:`~lathe.rtl.derived_widths.RtlError` for machines that cannot be built.
    """

    def __init__(self, config: HardwareConfig) -> None:
        self.geometry = geometry = Geometry(config)
        self.fetch = Fetch(geometry)
        self.load = Load(geometry)
        self.inp = Scratchpad(geometry, MemoryType.INP, self.load.write)
        self.wgt = Scratchpad(geometry, MemoryType.WGT, self.load.write)
        self.compute = Compute(geometry, self.inp, self.wgt)
        self.store = Store(geometry)
        self.arbiter = ReadArbiter(geometry, (self.fetch.port, self.load.port, self.compute.port))
        units = (self.load, self.compute, self.store)
        self.activities = tuple(unit.activity for unit in (*units, self.fetch))
        self.control = Control(self.activities)
        self.queues = [CommandQueue(config.timing.command_queue_depth, unit.command) for unit in units]
        self.counters = [TokenCounter() for _ in TokenQueue]
        self.bus = BusPorts(geometry)
        self.host = HostPorts()
        self.trace = TracePorts(geometry)

    @property
    def ports(self) -> list[Signal]:
        """All ports except clock and reset."""
        return [*self.bus.signals, *self.host.signals, *self.trace.signals]

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        control = self.control
        m.submodules.control = control
        cleared = ResetInserter(control.clear)
        for name in ("fetch", "load", "inp", "wgt", "compute", "store", "arbiter"):
            m.submodules[name] = cleared(getattr(self, name))
        units: tuple[Load, Compute, Store] = (self.load, self.compute, self.store)
        commands: list[CommandPort] = [unit.command for unit in units]
        for unit, queue in zip(Unit, self.queues, strict=True):
            m.submodules[f"{unit.name.lower()}_queue"] = cleared(queue)
            m.d.comb += [
                queue.w_en.eq(self.fetch.dispatch & (self.fetch.unit == unit)),
                queue.word.eq(self.fetch.word),
                self.fetch.full[unit].eq(queue.full),
            ]
        for queue_number, counter in zip(TokenQueue, self.counters, strict=True):
            m.submodules[queue_number.name.lower()] = counter
            m.d.comb += [
                counter.load.eq(control.start),
                counter.value.eq(control.tokens_in[queue_number]),
                counter.push.eq(Cat(*(command.pushes[queue_number] for command in commands)).any()),
                counter.pop.eq(Cat(*(command.pops[queue_number] for command in commands)).any()),
                control.tokens[queue_number].eq(counter.count),
                *(command.tokens[queue_number].eq(counter.available) for command in commands),
            ]
        self._connect_out(m)
        self._connect_control(m, units)
        self.bus.connect(m, self.arbiter, self.store.channel)
        self.host.connect(m, control)
        self.trace.connect(m, control, self.fetch, units, self.activities)
        return m

    def _connect_out(self, m: Module) -> None:
        """Connect store to the read port of out."""
        store, acc = self.store, self.compute.acc
        m.d.comb += [
            acc.out_en.eq(store.out_en),
            acc.out_address.eq(store.out_address),
            acc.out_offset.eq(store.out_offset),
            acc.out_size.eq(store.out_size),
            store.out_data.eq(acc.out_data),
        ]

    def _connect_control(self, m: Module, units: tuple[Load, Compute, Store]) -> None:
        """Connect control: start, stop, end of a launch, and faults."""
        control, fetch = self.control, self.fetch
        m.d.comb += [
            fetch.start.eq(control.start),
            fetch.address.eq(control.stream),
            fetch.count.eq(control.count),
            fetch.stop.eq(control.stop),
            self.store.guard.start.eq(control.start),
            self.store.guard.address.eq(control.stream),
            self.store.guard.count.eq(control.count),
            self.arbiter.stop.eq(control.stop),
            *(unit.stop.eq(control.stop) for unit in units),
        ]
        idle = Cat(*(unit.idle for unit in units)).all()
        empty = Cat(*(queue.empty for queue in self.queues)).all()
        waiting = [
            activity.stall & queue.settled for activity, queue in zip(self.activities, self.queues, strict=False)
        ]
        complete = Signal()
        m.d.comb += complete.eq(fetch.done & empty & idle)
        m.d.sync += [
            control.complete.eq(complete & control.running),
            control.standstill.eq(
                (fetch.done | fetch.stuck) & ~complete & idle & Cat(*waiting).all() & control.running
            ),
        ]
        m.d.comb += [
            control.finish.eq(self.compute.finished),
            control.quiet.eq(self.arbiter.idle & self.store.channel.idle),
        ]
        overflow, read_error, write_error = (fault_signal() for _ in range(3))
        with m.If(Cat(*(counter.overflow for counter in self.counters)).any()):
            m.d.comb += overflow.eq(FaultCode.TOKEN_OVERFLOW)
        with m.If(self.arbiter.error):
            m.d.comb += read_error.eq(FaultCode.READ_ERROR)
        with m.If(self.store.channel.error):
            m.d.comb += write_error.eq(FaultCode.WRITE_ERROR)
        faults = [read_error, write_error, *(unit.fault for unit in units), fetch.fault, overflow]
        first_fault(m, control.fault, faults)
