"""The store unit: executes STOREs of the scratchpad out, packed into bursts."""

from typing import Any

from amaranth import Const, Elaboratable, Module, Mux, Signal

from lathe.configs.memory import PACK
from lathe.isa.table import MemoryType, Opcode, Unit
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.dma_descriptor import TransferDecoder
from lathe.rtl.fault import FaultCode, fault_signal
from lathe.rtl.fifo import Fifo
from lathe.rtl.instruction import instruction_view
from lathe.rtl.read_requests import BurstRequests
from lathe.rtl.self_modify_guard import StreamGuard
from lathe.rtl.stall import Activity, Cause, CommandPort, delayed
from lathe.rtl.up_down_counter import UpDownCounter
from lathe.rtl.write_channel import WriteChannel

STORE_MEMORIES = (MemoryType.OUT,)
SERIAL_BITS = 20


class Store(Elaboratable):
    """Packs one beat per cycle, which reaches the FIFO `PACK` cycles later.

    `out_en`, `out_address`, `out_offset`, `out_size` request a beat of out, which is on `out_data` two cycles later.
    """

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.pending = geometry.config.timing.dma_pending
        self.command = CommandPort(Unit.STORE)
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
        m.submodules.decoder = decoder = TransferDecoder(geometry, Opcode.STORE, STORE_MEMORIES, command)
        fields = instruction_view(geometry.config, Opcode.STORE, command.word)
        under_way = UpDownCounter(self.pending, "under_way")
        under_way.drive(m, command.take, activity.end)
        cause, held = command.stall_cause(m, fields.pop_prev, fields.pop_next, [(Cause.MEMORY, under_way.full)])
        packing = Signal()
        free = Signal()
        ready = Signal()
        m.d.comb += [
            free.eq(~packing | activity.retire),
            ready.eq(free & ~held & ~self.stop),
            command.take.eq(ready & ~decoder.overruns),
            activity.start.eq(command.take),
            activity.stall.eq(free & held),
            activity.cause.eq(cause),
        ]
        with m.If(self.guard.hit):  # by a STORE that has already started
            m.d.comb += self.fault.eq(FaultCode.STREAM_WRITE)
        with m.Elif(ready & decoder.overruns):
            m.d.comb += self.fault.eq(FaultCode.SRAM_RANGE)
        with m.If(command.take):
            m.d.sync += packing.eq(1)
        with m.Elif(activity.retire):
            m.d.sync += packing.eq(0)
        begins = self._pack(m, decoder, packing)
        self._ends(m, decoder, under_way, packing, begins)
        return m

    def _pack(self, m: Module, decoder: TransferDecoder, packing: Signal) -> Signal:
        """The steps: one for each beat of each burst of each chain. Returns whether a burst begins."""
        geometry, activity, channel = self.geometry, self.activity, self.channel
        transfer = decoder.transfer
        sizes = (len(transfer.chain_bytes), len(transfer.stride_bytes))
        m.submodules.requests = requests = BurstRequests(
            geometry, geometry.data_burst, geometry.config.timing.dma_fifo_beats, *sizes
        )
        requests.cutter.take_chains(m, transfer)
        nothing = Signal()
        begun = Signal()  # the burst's first beat has been packed
        last = Signal()  # it is the last burst of the STORE
        left = Signal.like(requests.beats)  # beats left of the burst, once it has begun
        remaining = Signal.like(requests.beats)
        last_beat = Signal()
        step = Signal()
        begins = Signal()
        m.d.comb += [
            requests.cutter.start.eq(self.command.take),
            requests.take.eq(begins),
            requests.credits.beat.eq(channel.sent),
            requests.credits.last.eq(channel.bus_w_last),
            remaining.eq(Mux(begun, left, requests.beats)),
            last_beat.eq(remaining == 1),
            step.eq(packing & (begun | (requests.valid & ~channel.crowded)) & ~self.stop),
            self.out_en.eq(step),
            begins.eq(step & ~begun),
            activity.busy.eq(step | (packing & nothing & ~self.stop)),
            activity.wait.eq(packing & ~nothing & ~step),
            activity.retire.eq(Mux(nothing, activity.busy, step & last_beat & Mux(begun, last, requests.last))),
        ]
        with m.If(self.command.take):
            m.d.sync += nothing.eq(transfer.chains == 0)
        with m.If(step):
            m.d.sync += [begun.eq(~last_beat), left.eq(remaining - 1)]
        with m.If(begins):
            m.d.sync += last.eq(requests.last)
        self._bytes(m, transfer, step)
        self._send(m, requests, begins, step, last_beat)
        return begins

    def _bytes(self, m: Module, transfer: Any, step: Signal) -> None:
        """Which bytes of out go into which bytes of the beat: those of a chain from the first to the last."""
        bus = self.geometry.bus_bytes
        chain_bytes = Signal.like(transfer.chain_bytes, reset_less=True)
        rest = Signal.like(chain_bytes, reset_less=True)  # bytes left of the chain
        stride = Signal(range(bus))  # the low bits
        row = Signal(range(bus))  # offset of the chain's start in a beat
        following = Signal(range(bus))
        room = Signal(range(bus + 1))
        ends = Signal()
        m.d.comb += [
            room.eq(bus - self.out_offset),
            ends.eq(rest <= room),
            self.out_size.eq(Mux(ends, rest, room)),
            following.eq(row + stride),
        ]
        with m.If(self.command.take):
            m.d.sync += [
                chain_bytes.eq(transfer.chain_bytes),
                rest.eq(transfer.chain_bytes),
                stride.eq(transfer.stride_bytes),
                row.eq(transfer.address),
                self.out_offset.eq(transfer.address),
                self.out_address.eq(transfer.sram),
            ]
        with m.Elif(step):
            m.d.sync += [self.out_address.eq(self.out_address + self.out_size), self.out_offset.eq(0)]
            with m.If(ends):
                m.d.sync += [rest.eq(chain_bytes), row.eq(following), self.out_offset.eq(following)]
            with m.Else():
                m.d.sync += rest.eq(rest - self.out_size)

    def _send(self, m: Module, requests: BurstRequests, begins: Signal, step: Signal, last_beat: Signal) -> None:
        """Drive the write channel, in the cycle in which the beat's data arrive."""
        channel, bus = self.channel, self.geometry.bus_bytes
        spare = Signal(range(bus + 1))
        strobes = Signal(bus)
        m.d.comb += [
            self.guard.burst.eq(begins),
            self.guard.burst_address.eq(requests.address),
            self.guard.burst_end.eq(requests.end),
        ]
        # Of the burst that is being packed; the next one begins one cycle after its last beat at the earliest.
        packed_address = Signal.like(channel.address, reset_less=True)
        packed_beats = Signal.like(channel.beats, reset_less=True)
        with m.If(begins):
            m.d.sync += [packed_address.eq(requests.address), packed_beats.eq(requests.beats)]
        packed = Signal()
        m.d.comb += packed.eq(step & last_beat)
        stepped, last, whole = delayed(m, 1, step, last_beat, packed)
        # The strobes of a beat are computed one cycle after its size.
        size, offset = delayed(m, 1, self.out_size, self.out_offset, reset=False)
        m.d.comb += [spare.eq(bus - size), strobes.eq((Const((1 << bus) - 1, bus) >> spare) << offset)]
        first = [stepped, strobes, last, whole]
        second = delayed(m, PACK - 2, *first)
        at, count = delayed(m, PACK - 2, packed_address, packed_beats, reset=False)
        (hit,) = delayed(m, PACK - 2, self.guard.hit)
        w_en, w_strb, w_last, complete = second
        m.d.comb += [
            channel.w_en.eq(w_en),
            channel.w_strb.eq(w_strb),
            channel.w_last.eq(w_last),
            channel.w_data.eq(self.out_data),
            # A burst that hits the stream is never marked complete, so it is not sent.
            channel.complete.eq(complete & ~hit),
            channel.coming.eq(first[-1] & ~self.guard.hit),
            channel.address.eq(at),
            channel.beats.eq(count),
        ]

    def _ends(
        self, m: Module, decoder: TransferDecoder, under_way: UpDownCounter, packing: Signal, begins: Signal
    ) -> None:
        """End STOREs in order; FIFOs hold those in progress and, of those that move data, the last burst's number."""
        activity, channel, command = self.activity, self.channel, self.command
        transfer = decoder.transfer
        m.submodules.stores = stores = Fifo(3, self.pending)
        m.submodules.targets = targets = Fifo(SERIAL_BITS, self.pending)
        packed = Signal(SERIAL_BITS)
        answers = Signal(SERIAL_BITS, init=1)  # number of the next response
        ended = Signal(range(self.pending + 1))  # STOREs that have their last response, but have not ended
        packs = Signal()
        moved = Signal()
        now = Signal()
        m.d.sync += [packed.eq(packed + begins), answers.eq(answers + channel.responded)]
        with m.If(command.take):
            m.d.sync += packs.eq(transfer.chains != 0)
        empty = stores.r_data[2]
        m.d.comb += [
            stores.w_en.eq(command.take),
            stores.w_data.eq(transfer.pushes | ((transfer.chains == 0) << 2)),
            targets.w_en.eq(activity.retire & packs),
            targets.w_data.eq(packed + begins),
            now.eq(channel.responded & targets.r_valid & (answers == targets.r_data)),
            targets.r_en.eq(now),
            moved.eq(now | (ended != 0)),
            activity.end.eq(stores.r_valid & (empty | moved)),
            stores.r_en.eq(activity.end),
        ]
        m.d.sync += [ended.eq(ended + now - (activity.end & ~empty))]
        command.push(m, activity.end, stores.r_data[:2])
        m.d.comb += self.idle.eq((under_way.count == 0) & ~packing)
