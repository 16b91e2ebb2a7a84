"""Control: state, cycle and counters of a launch, and the AXI4-Lite subordinate that the host CPU accesses."""

from amaranth import Cat, Const, Elaboratable, Module, Signal
from amaranth.hdl import Value

from lathe.isa.table import TOKEN_BITS, TokenQueue
from lathe.rtl.fault import FaultCode, fault_signal
from lathe.rtl.fetch import COUNT_BITS
from lathe.rtl.registers import ADDRESS_BITS, BY_NAME, COUNTER_BITS, IDENTITY, REGISTERS, counters
from lathe.rtl.stall import CAUSES_OF, Activity, Cause, delayed


class Control(Elaboratable):
    """The state of a launch, and its registers.

    `start` is cycle 0 of a launch. After a fault, `stop` halts all units until `quiet` reports that the bus has no
    pending transactions. `clear` resets all units after a launch and after a fault.
    """

    def __init__(self, activities: tuple[Activity, ...]) -> None:
        self.activities = activities
        self.start = Signal()
        self.stop = Signal()
        self.clear = Signal()
        self.running = Signal()
        self.busy = Signal()
        self.counting = Signal()  # this cycle belongs to a launch
        self.complete = Signal()  # every unit is idle and no command is queued
        self.standstill = Signal()  # deadlock: every unit waits for what cannot come
        self.finish = Signal()  # a FINISH completes
        self.quiet = Signal()
        self.fault = fault_signal()
        self.fault_code = fault_signal()
        self.done = Signal()
        self.stream = Signal(64)
        self.count = Signal(COUNT_BITS)
        self.tokens_in = [Signal(TOKEN_BITS, name=f"tokens_in{queue}") for queue in range(len(TokenQueue))]
        self.tokens = [Signal(TOKEN_BITS, name=f"tokens{queue}") for queue in range(len(TokenQueue))]
        self.cycle = Signal(COUNTER_BITS)
        # AXI4-Lite.
        self.aw_valid, self.aw_ready = Signal(), Signal()
        self.aw_addr = Signal(ADDRESS_BITS)
        self.w_valid, self.w_ready = Signal(), Signal()
        self.w_data, self.w_strb = Signal(32), Signal(4)
        self.b_valid, self.b_ready = Signal(), Signal()
        self.ar_valid, self.ar_ready = Signal(), Signal()
        self.ar_addr = Signal(ADDRESS_BITS)
        self.r_valid, self.r_ready = Signal(), Signal()
        self.r_data = Signal(32)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        self._launch(m)
        values = self._counters(m)
        self._write(m)
        self._read(m, values)
        return m

    def _launch(self, m: Module) -> None:
        failing = Signal()
        finished = Signal()
        ended = Signal()
        done_before = Signal()
        fault = fault_signal()
        with m.If(self.fault != FaultCode.NONE):
            m.d.comb += fault.eq(self.fault)
        with m.Elif(self.complete & ~finished):
            m.d.comb += fault.eq(FaultCode.NO_FINISH)
        with m.Elif(self.standstill):
            m.d.comb += fault.eq(FaultCode.DEADLOCK)
        m.d.comb += [ended.eq(self.running & self.complete & finished), self.done.eq(ended | done_before)]
        m.d.sync += self.clear.eq(ended | (failing & self.quiet))
        with m.If(self.running & (fault != FaultCode.NONE)):
            m.d.sync += self.stop.eq(1)
        with m.Elif(self.clear):
            m.d.sync += self.stop.eq(0)
        with m.If(self.start):
            m.d.sync += [
                self.running.eq(1),
                finished.eq(0),
                done_before.eq(0),
                self.fault_code.eq(FaultCode.NONE),
                self.cycle.eq(1),
            ]
        with m.Elif(ended):
            m.d.sync += [self.running.eq(0), done_before.eq(1)]
        with m.Elif(self.running):
            m.d.sync += [self.cycle.eq(self.cycle + 1), finished.eq(finished | self.finish)]
            with m.If(fault != FaultCode.NONE):
                m.d.sync += [self.running.eq(0), failing.eq(1), self.fault_code.eq(fault)]
        with m.Elif(failing & self.quiet):
            m.d.sync += failing.eq(0)
        m.d.comb += self.busy.eq(self.running | failing)
        m.d.comb += self.counting.eq(self.start | (self.running & ~ended))

    def _counters(self, m: Module) -> dict[str, Value]:
        """The counters' values by name."""
        values: list[Signal] = [self.cycle]
        for activity, causes in zip(self.activities, CAUSES_OF, strict=True):
            events: list[Value] = [activity.busy]
            for cause in causes:
                event = activity.stall & (activity.cause == cause)
                events.append(event | activity.wait if cause is Cause.MEMORY else event)
            for event in events:
                counter = Signal(COUNTER_BITS, name=f"counter{len(values)}")
                # Events are counted one cycle later, since units determine them late in a cycle.
                (happened,) = delayed(m, 1, event & self.counting)
                with m.If(self.start):
                    m.d.sync += counter.eq(0)
                with m.Elif(happened):
                    m.d.sync += counter.eq(counter + 1)
                values.append(counter)
        return {name: value for (name, _), value in zip(counters(), values, strict=True)}

    def _write(self, m: Module) -> None:
        """Register writes: address and data are accepted together."""
        writes = Signal()
        bits = Signal(32)
        m.d.comb += [
            writes.eq(self.aw_valid & self.w_valid & (~self.b_valid | self.b_ready)),
            self.aw_ready.eq(writes),
            self.w_ready.eq(writes),
            bits.eq(Cat(*(self.w_strb[byte].replicate(8) for byte in range(4)))),
        ]
        with m.If(writes):
            m.d.sync += self.b_valid.eq(1)
        with m.Elif(self.b_ready):
            m.d.sync += self.b_valid.eq(0)
        targets: dict[str, Value] = {
            "STREAM_LOW": self.stream[:32],
            "STREAM_HIGH": self.stream[32:],
            "COUNT": self.count,
        } | {f"TOKENS_IN_{queue}": signal for queue, signal in enumerate(self.tokens_in)}
        for name, target in targets.items():
            with m.If(writes & (self.aw_addr == BY_NAME[name].address)):
                m.d.sync += target.eq((target & ~bits) | (self.w_data & bits))
        asked = writes & (self.aw_addr == BY_NAME["CONTROL"].address) & self.w_data[0] & self.w_strb[0]
        m.d.sync += self.start.eq(asked & ~self.busy & ~self.start)

    def _read(self, m: Module, values: dict[str, Value]) -> None:
        flags = Signal(8)
        m.d.comb += flags.eq(Cat(self.busy | self.start, self.done, self.fault_code != FaultCode.NONE))
        content: dict[str, Value] = {
            "STATUS": Cat(flags, self.fault_code),
            "IDENTITY": Const(IDENTITY, 32),
            "STREAM_LOW": self.stream[:32],
            "STREAM_HIGH": self.stream[32:],
            "COUNT": self.count,
        }
        content |= {f"TOKENS_IN_{queue}": signal for queue, signal in enumerate(self.tokens_in)}
        content |= {f"TOKENS_OUT_{queue}": signal for queue, signal in enumerate(self.tokens)}
        for name, value in values.items():
            content |= {f"{name}_LOW": value[:32], f"{name}_HIGH": value[32:]}
        m.d.comb += self.ar_ready.eq(~self.r_valid | self.r_ready)
        with m.If(self.ar_valid & self.ar_ready):
            m.d.sync += [self.r_valid.eq(1), self.r_data.eq(0)]
            with m.Switch(self.ar_addr):
                for register in REGISTERS:
                    if register.name in content:
                        with m.Case(register.address):
                            m.d.sync += self.r_data.eq(content[register.name])
        with m.Elif(self.r_ready):
            m.d.sync += self.r_valid.eq(0)
