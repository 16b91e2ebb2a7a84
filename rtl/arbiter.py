"""The read side of the memory port: which master's burst comes next, and whose beats come back."""

from collections.abc import Sequence

from amaranth import Elaboratable, Module, Signal

from lathe.rtl.geometry import Geometry, log2
from lathe.rtl.read_master import ReadPort


class ReadArbiter(Elaboratable):
    """Grants one request per cycle, round-robin, while fewer than `memory.outstanding_reads` bursts are in flight.

    Beats find their master by their id, the master's place in `ports`. An address that the bus does not take at once
    stays as it is until the bus takes it. `error`: a beat came with an error; `idle`: nothing is in flight.
    """

    def __init__(self, geometry: Geometry, ports: Sequence[ReadPort]) -> None:
        self.geometry, self.ports = geometry, tuple(ports)
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
        self.inflight = Signal(range(geometry.config.memory.outstanding_reads + 1))
        self.held = Signal()  # an address is shown that the bus did not take at once
        self.latest = Signal(2, init=len(self.ports) - 1)  # whose address was shown last

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        ports = self.ports
        latest, held, inflight = self.latest, self.held, self.inflight
        chosen = Signal(2)
        requested = Signal()
        most = self.geometry.config.memory.outstanding_reads
        with m.If(held):
            m.d.comb += [chosen.eq(latest), requested.eq(1)]
        with m.Else(), m.Switch(latest):
            for last in range(len(ports)):
                with m.Case(last):
                    order = [(last + 1 + step) % len(ports) for step in range(len(ports))]
                    for number in reversed(order):
                        with m.If(ports[number].request):
                            m.d.comb += [chosen.eq(number), requested.eq(1)]
        m.d.comb += self.ar_valid.eq(requested & (inflight != most))
        granted = Signal()
        bus_shift = log2(self.geometry.bus_bytes)
        m.d.comb += [granted.eq(self.ar_valid & self.ar_ready), self.ar_id.eq(chosen)]
        with m.If(self.ar_valid):
            m.d.sync += [latest.eq(chosen), held.eq(~self.ar_ready)]
        with m.Switch(chosen):
            for number, port in enumerate(ports):
                with m.Case(number):
                    # Whole beats: an address within a beat is that of the beat.
                    m.d.comb += [
                        self.ar_addr.eq((port.address >> bus_shift) << bus_shift),
                        self.ar_len.eq(port.beats - 1),
                        port.grant.eq(granted),
                    ]
        for number, port in enumerate(ports):
            m.d.comb += [
                port.r_valid.eq(self.r_valid & (self.r_id == number)),
                port.r_last.eq(self.r_last),
                port.r_data.eq(self.r_data),
            ]
        ended = self.r_valid & self.r_last
        m.d.sync += inflight.eq(inflight + granted - ended)
        m.d.comb += [
            self.error.eq(self.r_valid & self.r_resp[1]),
            self.idle.eq((inflight == 0) & ~held),
        ]
        return m
