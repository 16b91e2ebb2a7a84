"""Read arbiter of the memory port: selects the master that requests the next burst, and routes beats back."""

from collections.abc import Sequence

from amaranth import Cat, Elaboratable, Module, Signal
from amaranth.hdl import Value

from lathe.rtl.derived_widths import Geometry, log2
from lathe.rtl.read_master import ReadPort
from lathe.rtl.up_down_counter import UpDownCounter


class ReadArbiter(Elaboratable):
    """Grants one request per cycle, round-robin, while fewer than `memory.outstanding_reads` bursts are in flight.

    Beats are routed by their id, the index of their master in `ports`. An address that the bus does not accept at once
    stays unchanged until it does; during `stop`, no other one is issued. `error`: a beat came with an error response;
    `idle`: nothing is in flight.
    """

    def __init__(self, geometry: Geometry, ports: Sequence[ReadPort]) -> None:
        self.geometry, self.ports = geometry, tuple(ports)
        self.stop = Signal()
        self.ar_valid = Signal()
        self.ar_ready = Signal()
        self.ar_addr = Signal(geometry.address_bits)
        self.ar_len = Signal(8)
        self.ar_id = Signal(2)
        self.r_valid = Signal()
        self.r_id = Signal(2)
        self.r_data = Signal(geometry.bus_bits)
        self.r_resp = Signal(2)
        self.r_last = Signal()
        self.error = Signal()
        self.idle = Signal()
        self.inflight = UpDownCounter(geometry.config.memory.outstanding_reads, "inflight")
        self.held = Signal()  # the bus has not yet accepted the issued address
        # One-hot: the master whose address was issued last.
        self.latest = Signal(len(self.ports), init=1 << (len(self.ports) - 1))

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        ports = self.ports
        latest, held, inflight = self.latest, self.held, self.inflight
        count, bus_shift = len(ports), log2(self.geometry.bus_bytes)
        wants = Cat(*(port.request for port in ports))
        shown = Signal(count)  # at most one bit: the master whose address is issued
        with m.If(held):
            m.d.comb += shown.eq(latest)
        with m.Else():
            for number in range(count):
                # A master loses to one that follows the latest master and precedes it in the round-robin order.
                earlier = [(number - distance) % count for distance in range(1, count)]
                beaten = [
                    latest[(number - 1 - distance) % count] & Cat(*(wants[each] for each in earlier[:distance])).any()
                    for distance in range(1, count)
                ]
                m.d.comb += shown[number].eq(wants[number] & ~Cat(*beaten).any())
        opened = Signal()
        m.d.comb += [
            opened.eq(~inflight.full & (held | ~self.stop)),
            self.ar_valid.eq((wants.any() | held) & opened),
            self.ar_id.eq(_encoded(shown)),
        ]
        with m.If(self.ar_valid):
            m.d.sync += [latest.eq(shown), held.eq(~self.ar_ready)]
        for number, port in enumerate(ports):
            m.d.comb += port.grant.eq(shown[number] & opened & self.ar_ready)
            with m.If(shown[number]):
                # A burst consists of whole beats: its address is rounded down to a beat.
                m.d.comb += [self.ar_addr.eq((port.address >> bus_shift) << bus_shift), self.ar_len.eq(port.beats - 1)]
        for number, port in enumerate(ports):
            m.d.comb += [
                port.r_valid.eq(self.r_valid & (self.r_id == number)),
                port.r_last.eq(self.r_last),
                port.r_data.eq(self.r_data),
            ]
        inflight.drive(m, self.ar_valid & self.ar_ready, self.r_valid & self.r_last)
        m.d.comb += [self.error.eq(self.r_valid & self.r_resp[1]), self.idle.eq((inflight.count == 0) & ~held)]
        return m


def _encoded(one_hot: Value) -> Value:
    """The position of the one bit that is set, in two bits."""
    positions = range(len(one_hot))
    return Cat(*(Cat(*(one_hot[each] for each in positions if each >> bit & 1)).any() for bit in range(2)))
