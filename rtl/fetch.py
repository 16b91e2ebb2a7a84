"""Fetch: reads the instruction stream in bursts and dispatches one instruction per cycle to the command queues."""

from amaranth import Cat, Elaboratable, Module, Mux, Signal

from lathe.configs.encoding import INSTRUCTION_BITS, INSTRUCTION_BYTES
from lathe.isa.table import Unit
from lathe.rtl.derived_widths import Geometry, log2
from lathe.rtl.fault import FaultCode, fault_signal
from lathe.rtl.fifo import Fifo
from lathe.rtl.instruction import Decoder
from lathe.rtl.read_master import ReadPort
from lathe.rtl.read_requests import BurstRequests
from lathe.rtl.stall import Activity, Cause

COUNT_BITS = 32


class Fetch(Elaboratable):
    """`start` takes the stream's `address` (bytes, a multiple of 16) and `count`, in instructions.

    `dispatch` writes `word` into the command queue of `unit`; `full` has a bit for each queue. `done`: all instructions
    are dispatched. `stuck`: an instruction waits for a full queue.
    """

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.start = Signal()
        self.address = Signal(geometry.address_bits)
        self.count = Signal(COUNT_BITS)
        self.stop = Signal()
        self.port = ReadPort(geometry)
        self.full = Signal(len(Unit))
        self.dispatch = Signal()
        self.unit = Signal(Unit)
        self.word = Signal(INSTRUCTION_BITS)
        self.done = Signal(init=1)
        self.stuck = Signal()
        self.activity = Activity()
        self.fault = fault_signal()

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        port, activity = self.port, self.activity
        beats = self.geometry.config.timing.fetch_fifo_beats
        m.submodules.fifo = fifo = Fifo(self.geometry.bus_bits + 1, beats)
        m.submodules.requests = requests = BurstRequests(
            self.geometry, self.geometry.fetch_burst, beats, COUNT_BITS + log2(INSTRUCTION_BYTES)
        )
        credits = requests.credits
        m.submodules.decoder = decoder = Decoder(self.geometry.config)
        self._requests(m, requests)
        left = Signal(COUNT_BITS)
        take = Signal()
        last = Signal()
        complete = Signal()  # the head of the FIFO completes an instruction
        m.d.comb += [
            fifo.w_en.eq(port.r_valid),
            fifo.w_data.eq(Cat(port.r_data, port.r_last)),
            fifo.r_en.eq(take),
            credits.beat.eq(take),
            credits.last.eq(fifo.r_data[-1]),
            self.unit.eq(decoder.unit),
            decoder.word.eq(self.word),
        ]
        there = Signal()
        m.d.comb += there.eq(fifo.r_valid & ~self.done & ~self.stop)
        if self.geometry.bus_bytes >= INSTRUCTION_BYTES:
            self._split(m, fifo, there, complete, take, last)
        else:
            self._assemble(m, fifo, there, complete, take)
        full = self.full.bit_select(self.unit, 1)
        with m.If(complete & (decoder.fault != FaultCode.NONE)):
            m.d.comb += self.fault.eq(decoder.fault)
        with m.Elif(complete):
            m.d.comb += [self.dispatch.eq(~full), self.stuck.eq(full)]
        with m.If(self.start):
            m.d.sync += [left.eq(self.count), last.eq(self.count == 1), self.done.eq(self.count == 0)]
        with m.Elif(self.dispatch):
            m.d.sync += [left.eq(left - 1), last.eq(left == 2), self.done.eq(last)]
        queue_causes = Mux(
            self.unit == Unit.LOAD,
            Cause.LOAD_QUEUE,
            Mux(self.unit == Unit.COMPUTE, Cause.COMPUTE_QUEUE, Cause.STORE_QUEUE),
        )
        m.d.comb += [
            activity.start.eq(self.dispatch),
            activity.busy.eq(self.dispatch | take),
            activity.stall.eq(~activity.busy),
            activity.cause.eq(
                Mux(self.start, Cause.MEMORY, Mux(self.done, Cause.EMPTY, Mux(self.stuck, queue_causes, Cause.MEMORY)))
            ),
        ]
        return m

    def _requests(self, m: Module, requests: BurstRequests) -> None:
        """The address side: requests the stream, which is one chain."""
        port, cutter = self.port, requests.cutter
        m.d.comb += [
            cutter.start.eq(self.start),
            cutter.chains.eq(self.count != 0),
            cutter.from_address.eq(self.address),
            cutter.chain_bytes.eq(self.count << log2(INSTRUCTION_BYTES)),
            requests.take.eq(port.grant),
            port.address.eq(requests.address),
            port.beats.eq(requests.beats),
            port.request.eq(requests.valid),
        ]

    def _split(self, m: Module, fifo: Fifo, there: Signal, complete: Signal, take: Signal, last: Signal) -> None:
        """Wide bus: a beat holds one or several instructions."""
        each = self.geometry.bus_bytes // INSTRUCTION_BYTES
        position = Signal(range(max(2, each)))
        m.d.comb += [
            complete.eq(there),
            self.word.eq(fifo.r_data[:-1].word_select(position, INSTRUCTION_BITS) if each > 1 else fifo.r_data[:-1]),
            take.eq(self.dispatch & ((position == each - 1) | last)),
        ]
        if each > 1:
            with m.If(self.start):
                m.d.sync += position.eq(self.address >> log2(INSTRUCTION_BYTES))
            with m.Elif(self.dispatch):
                m.d.sync += position.eq(position + 1)

    def _assemble(self, m: Module, fifo: Fifo, there: Signal, complete: Signal, take: Signal) -> None:
        """Narrow bus: an instruction takes several beats; all but the last are read as they come."""
        each = INSTRUCTION_BYTES // self.geometry.bus_bytes
        bits = self.geometry.bus_bits
        begun = Signal(bits * (each - 1))
        position = Signal(range(each))
        final = Signal()
        m.d.comb += [
            final.eq(position == each - 1),
            complete.eq(there & final),
            self.word.eq(Cat(begun, fifo.r_data[:-1])),
            take.eq(Mux(final, self.dispatch, there)),
        ]
        with m.If(take):
            m.d.sync += position.eq(position + 1)  # wraps, since `each` is a power of two
            with m.If(~final):
                m.d.sync += begun.word_select(position, bits).eq(fifo.r_data[:-1])
