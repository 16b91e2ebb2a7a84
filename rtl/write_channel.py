"""The write channels of the memory port: store's data FIFO, addresses of complete bursts, responses."""

from amaranth import Cat, Elaboratable, Module, Signal

from lathe.configs.memory import PACK
from lathe.rtl.derived_widths import Geometry, log2
from lathe.rtl.fifo import Fifo

# Entries of the address FIFO. On a bus that is always ready, only one is ever used.
ADDRESSES = 5
# Entries reserved for bursts that are being packed, whose addresses are still to come.
ON_THE_WAY = PACK - 1


class WriteChannel(Elaboratable):
    """Sends bursts once all their beats are in the FIFO.

    A burst may begin unless the channel is `crowded`, after its FIFO space has been reserved. Its beats come with
    `w_en` (`w_data`, `w_strb`, `w_last`); with the last of them comes `complete`, with the burst's `address` and
    `beats`. `coming`: a burst is complete in the next cycle. `sent`: a beat leaves the FIFO, with `bus_w_last` its
    burst's last. `responded`: a response has come, in the order of bursts; `error`: it is an error. `idle`: no burst
    is pending.
    """

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        bus = geometry.bus_bytes
        self.crowded = Signal()
        self.sent = Signal()
        self.w_en = Signal()
        self.w_data = Signal(geometry.bus_bits)
        self.w_strb = Signal(bus)
        self.w_last = Signal()
        self.complete = Signal()
        self.coming = Signal()
        self.address = Signal(geometry.address_bits)
        self.beats = Signal(range(257))
        self.responded = Signal()
        self.error = Signal()
        self.idle = Signal()
        # The bus.
        self.aw_valid = Signal()
        self.aw_ready = Signal()
        self.aw_addr = Signal(geometry.address_bits)
        self.aw_len = Signal(8)
        self.bus_w_valid = Signal()
        self.bus_w_ready = Signal()
        self.bus_w_data = Signal(geometry.bus_bits)
        self.bus_w_strb = Signal(bus)
        self.bus_w_last = Signal()
        self.b_valid = Signal()
        self.b_resp = Signal(2)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        bits, bus = self.geometry.bus_bits, self.geometry.bus_bytes
        beats = self.geometry.config.timing.dma_fifo_beats
        m.submodules.data = data = Fifo(bits + bus + 1, beats)
        m.submodules.addresses = addresses = Fifo(self.geometry.address_bits + 8, ADDRESSES)
        shift = log2(bus)
        accepted = Signal()
        sent = self.sent
        open_bursts = Signal(range(beats + 1))  # address accepted, data not all sent
        # Holds all bursts in the FIFO and all pending responses; addresses wait while its top bit is set.
        most = beats + self.geometry.config.timing.response_latency
        unanswered = Signal(range(2 * most + ADDRESSES))
        m.d.comb += [
            self.crowded.eq(addresses.level >= ADDRESSES - ON_THE_WAY),
            data.w_en.eq(self.w_en),
            data.w_data.eq(Cat(self.w_data, self.w_strb, self.w_last)),
            addresses.w_en.eq(self.complete),
            addresses.w_data.eq(Cat((self.beats - 1)[:8], (self.address >> shift) << shift)),
            self.aw_valid.eq(addresses.r_valid & ~unanswered[-1]),
            Cat(self.aw_len, self.aw_addr).eq(addresses.r_data),
            accepted.eq(self.aw_valid & self.aw_ready),
            addresses.r_en.eq(accepted),
            # Data follow their address, since not every interconnect accepts them before it.
            self.bus_w_valid.eq(data.r_valid & (open_bursts != 0)),
            Cat(self.bus_w_data, self.bus_w_strb, self.bus_w_last).eq(data.r_data),
            sent.eq(self.bus_w_valid & self.bus_w_ready),
            data.r_en.eq(sent),
            self.responded.eq(self.b_valid),
            self.error.eq(self.b_valid & self.b_resp[1]),
            self.idle.eq(~addresses.r_valid & (unanswered == 0) & ~self.complete & ~self.coming),
        ]
        m.d.sync += [
            open_bursts.eq(open_bursts + accepted - (sent & self.bus_w_last)),
            unanswered.eq(unanswered + accepted - self.b_valid),
        ]
        return m
