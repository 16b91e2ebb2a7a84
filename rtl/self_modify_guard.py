"""Detects stores to the instruction stream that is running, since fetch reads ahead of what it dispatches."""

from amaranth import Elaboratable, Module, Signal

from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.rtl.derived_widths import Geometry, log2
from lathe.rtl.fetch import COUNT_BITS


class StreamGuard(Elaboratable):
    """`start` takes the stream's `address` (bytes, a multiple of 16) and `count`, in instructions.

    A `burst` of bytes [`burst_address`, `burst_end`) that touches the stream raises `hit` from the next cycle on.
    """

    def __init__(self, geometry: Geometry) -> None:
        self.geometry = geometry
        self.start = Signal()
        self.address = Signal(geometry.address_bits)
        self.count = Signal(COUNT_BITS)
        self.burst = Signal()
        self.burst_address = Signal(geometry.address_bits)
        self.burst_end = Signal(geometry.address_bits)
        self.hit = Signal()

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        shift = log2(INSTRUCTION_BYTES)
        begin = Signal(len(self.address) - shift)
        end = Signal(max(len(begin), COUNT_BITS) + 1)
        with m.If(self.start):
            m.d.sync += [begin.eq(self.address >> shift), end.eq((self.address >> shift) + self.count)]
        before_end = (self.burst_address >> shift) < end
        after_begin = self.burst_end > begin << shift
        with m.If(self.burst & before_end & after_begin):
            m.d.sync += self.hit.eq(1)
        return m
