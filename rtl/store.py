"""The store unit: STORE of the out view, packed into bursts."""

from amaranth import Const, Elaboratable, Module, Mux, Signal

from lathe.configs.encoding import INSTRUCTION_BITS
from lathe.isa.table import MemoryType, Opcode, Unit
from lathe.rtl.burst import BurstCutter
from lathe.rtl.fault import FaultCode, fault_signal
from lathe.rtl.fifo import Fifo
from lathe.rtl.geometry import Geometry
from lathe.rtl.instruction import instruction_view
from lathe.rtl.stall import Activity, Cause, CommandPort
from lathe.rtl.stream_guard import StreamGuard
from lathe.rtl.transfer import TransferDecoder
from lathe.rtl.write_channel import WriteChannel

STORE_MEMORIES = (MemoryType.OUT,)
SERIAL_BITS = 20


class Store(Elaboratable):
    """Packs one beat per cycle; the scratchpad read takes a cycle, so that a beat packed in p is in the FIFO in p + 2.

    `out_en`, `out_address`, `out_offset`, `out_size` ask for a beat of the out view, which `out_data` gives in the next
    cycle.
    """

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.pending = geometry.config.timing.dma_pending
        self.command = CommandPort(Unit.STORE, INSTRUCTION_BITS)
        self.channel = WriteChannel(geometry)
        self.guard = StreamGuard(geometry)
        self.stop = Signal()
        self.idle = Signal()
        self.out_en = Signal()
        self.out_address = Signal(geometry.byte_bits(STORE_MEMORIES))
        self.out_offset = Signal(range(geometry.bus_bytes))
        self.out_size = Signal(range(geometry.bus_bytes + 1))
        self.out_data = Signal(geometry.bus_bits)
        self.activity = Activity()
        self.fault = fault_signal()

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        geometry, activity, command = self.geometry, self.activity, self.command
        m.submodules.channel = self.channel
        m.submodules.guard = self.guard
        m.submodules.decoder = decoder = TransferDecoder(geometry, Opcode.STORE, STORE_MEMORIES)
        fields = instruction_view(geometry.config, Opcode.STORE, command.word)
        under_way = Signal(range(self.pending + 1))
        cause = command.held_up(m, fields.pop_prev, fields.pop_next, [(Cause.MEMORY, under_way == self.pending)])
        packing = Signal()
        free = Signal()
        ready = Signal()
        m.d.comb += [
            decoder.word.eq(command.word),
            free.eq(~packing | activity.retire),
            ready.eq(free & (cause == Cause.NONE) & ~self.stop),
            command.take.eq(ready & ~decoder.overruns),
            activity.start.eq(command.take),
            activity.stall.eq(free & (cause != Cause.NONE)),
            activity.cause.eq(cause),
        ]
        with m.If(self.guard.hit):  # of an instruction that has started before
            m.d.comb += self.fault.eq(FaultCode.STREAM_WRITE)
        with m.Elif(ready & decoder.overruns):
            m.d.comb += self.fault.eq(FaultCode.SRAM_RANGE)
        with m.If(command.take):
            m.d.sync += packing.eq(1)
        with m.Elif(activity.retire):
            m.d.sync += packing.eq(0)
        self._pack(m, decoder, packing)
        self._ends(m, decoder, under_way, packing)
        return m

    def _pack(self, m: Module, decoder: TransferDecoder, packing: Signal) -> None:
        """The steps: the beats of each burst of each chain."""
        geometry, activity, channel, bus = self.geometry, self.activity, self.channel, self.geometry.bus_bytes
        transfer = decoder.transfer
        chains = Signal(16)
        rest = Signal.like(transfer.chain_bytes)
        m.submodules.cutter = cutter = BurstCutter(geometry, geometry.data_burst, len(rest))
        chain_bytes = Signal.like(rest)
        stride = Signal.like(transfer.stride_bytes)
        row = Signal(geometry.address_bits)
        address = Signal(geometry.address_bits)
        following = Signal(geometry.address_bits)
        sram = Signal.like(self.out_address)
        begun = Signal()  # the burst's first beat is packed
        left = Signal.like(cutter.size)  # bytes of the burst, when it is begun
        remaining = Signal.like(cutter.size)
        room = Signal(range(bus + 1))
        last_beat = Signal()
        step = Signal()
        nothing = Signal()
        m.d.comb += [
            nothing.eq(chains == 0),
            cutter.address.eq(address),
            cutter.rest.eq(rest),
            channel.wanted.eq(cutter.beats),
            remaining.eq(Mux(begun, left, cutter.size)),
            self.out_offset.eq(Mux(begun, 0, address)),
            room.eq(bus - self.out_offset),
            last_beat.eq(remaining <= room),
            self.out_size.eq(Mux(last_beat, remaining, room)),
            self.out_address.eq(sram),
            step.eq(packing & ~nothing & (begun | channel.fits) & ~self.stop),
            self.out_en.eq(step),
            channel.take.eq(step & ~begun),
            activity.busy.eq(step | (packing & nothing & ~self.stop)),
            activity.wait.eq(packing & ~nothing & ~step),
            following.eq(row + stride),
        ]
        burst_ends = Signal()
        m.d.comb += burst_ends.eq(step & last_beat)
        with m.If(nothing):
            m.d.comb += activity.retire.eq(activity.busy)
        with m.Else():
            m.d.comb += activity.retire.eq(burst_ends & cutter.last & (chains == 1))
        with m.If(self.command.take):
            m.d.sync += [
                chains.eq(transfer.chains),
                rest.eq(transfer.chain_bytes),
                chain_bytes.eq(transfer.chain_bytes),
                stride.eq(transfer.stride_bytes),
                row.eq(transfer.address),
                address.eq(transfer.address),
                sram.eq(transfer.sram),
                begun.eq(0),
            ]
        with m.Elif(step):
            m.d.sync += [begun.eq(~last_beat), left.eq(remaining - self.out_size), sram.eq(sram + self.out_size)]
            with m.If(last_beat & cutter.last):
                m.d.sync += [chains.eq(chains - 1), rest.eq(chain_bytes), row.eq(following), address.eq(following)]
            with m.Elif(last_beat):
                m.d.sync += [address.eq(address + cutter.size), rest.eq(rest - cutter.size)]
        # A burst that hits the stream is never complete, and so it is not sent.
        complete = Signal()
        m.d.comb += [
            self.guard.burst.eq(step & ~begun),
            self.guard.burst_address.eq(address),
            self.guard.burst_size.eq(cutter.size),
            channel.complete.eq(complete & ~self.guard.hit),
        ]
        # One cycle later the beat is there.
        spare = Signal(range(bus + 1))
        m.d.comb += spare.eq(bus - self.out_size)
        m.d.sync += [
            channel.w_en.eq(step),
            channel.w_strb.eq((Const((1 << bus) - 1, bus) >> spare) << self.out_offset),
            channel.w_last.eq(last_beat),
            complete.eq(burst_ends),
            channel.address.eq(address),
            channel.beats.eq(cutter.beats),
        ]
        m.d.comb += channel.w_data.eq(self.out_data)

    def _ends(self, m: Module, decoder: TransferDecoder, under_way: Signal, packing: Signal) -> None:
        """Ends in order: stores that wait, and of those that moved something, the number of their last burst."""
        activity, channel, command = self.activity, self.channel, self.command
        transfer = decoder.transfer
        m.submodules.stores = stores = Fifo(3, self.pending)
        m.submodules.targets = targets = Fifo(SERIAL_BITS, self.pending)
        packed = Signal(SERIAL_BITS)
        answered = Signal(SERIAL_BITS)
        ended = Signal(range(self.pending + 1))  # stores whose last response is there, not yet done
        packs = Signal()
        moved = Signal()
        now = Signal()
        m.d.sync += [packed.eq(packed + channel.take), answered.eq(answered + channel.responded)]
        with m.If(command.take):
            m.d.sync += packs.eq(transfer.chains != 0)
        empty = stores.r_data[2]
        m.d.comb += [
            stores.w_en.eq(command.take),
            stores.w_data.eq(transfer.pushes | ((transfer.chains == 0) << 2)),
            targets.w_en.eq(activity.retire & packs),
            targets.w_data.eq(packed + channel.take),
            now.eq(channel.responded & targets.r_valid & ((answered + 1)[:SERIAL_BITS] == targets.r_data)),
            targets.r_en.eq(now),
            moved.eq(now | (ended != 0)),
            activity.end.eq(stores.r_valid & (empty | moved)),
            stores.r_en.eq(activity.end),
        ]
        m.d.sync += [
            ended.eq(ended + now - (activity.end & ~empty)),
            under_way.eq(under_way + command.take - activity.end),
        ]
        command.push(m, activity.end, stores.r_data[:2])
        m.d.comb += self.idle.eq((under_way == 0) & ~packing)
