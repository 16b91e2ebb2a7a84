"""Chains of bytes cut into bursts."""

from amaranth import Elaboratable, Module, Mux, Signal

from lathe.configs.memory import PAGE_BYTES
from lathe.rtl.geometry import Geometry, log2

PAGE_BITS = log2(PAGE_BYTES)


class BurstCutter(Elaboratable):
    """The first burst of a chain: it ends with the chain, at a page, or after `limit` bus words.

    Combinational: `address` (its low 12 bits) and `rest`, the bytes left, give the burst's `size` in bytes, its
    `beats`, and whether it is the chain's `last`.
    """

    def __init__(self, geometry: Geometry, limit: int, rest_bits: int) -> None:
        self.geometry, self.limit = geometry, limit
        self.address = Signal(PAGE_BITS)
        self.rest = Signal(rest_bits)
        self.size = Signal(PAGE_BITS + 1)
        self.beats = Signal(range(min(limit, (1 << PAGE_BITS) // geometry.bus_bytes) + 1))
        self.last = Signal()

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        bus = self.geometry.bus_bytes
        offset = Signal(range(bus))
        room = Signal(PAGE_BITS + 1)
        to_page = (1 << PAGE_BITS) - self.address
        m.d.comb += offset.eq(self.address)  # its low bits
        if self.limit * bus >= 1 << PAGE_BITS:
            m.d.comb += room.eq(to_page)
        else:
            to_limit = self.limit * bus - offset
            m.d.comb += room.eq(Mux(to_page < to_limit, to_page, to_limit))
        m.d.comb += [
            self.last.eq(self.rest <= room),
            self.size.eq(Mux(self.last, self.rest, room)),
            self.beats.eq((offset + self.size + (bus - 1)) >> log2(bus)),
        ]
        return m
