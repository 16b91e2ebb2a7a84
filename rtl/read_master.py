"""The DMA read master of load and of compute: an address side, a data FIFO and a data side."""

from collections.abc import Sequence

from amaranth import Elaboratable, Module, Signal

from lathe.isa.table import MemoryType
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.fifo import Fifo
from lathe.rtl.read_data import BeatWrite, DataSide
from lathe.rtl.read_requests import AddressSide
from lathe.rtl.struct_signal import structured


class ReadPort:
    """The interface of a read master to the arbiter: `request` with `address` and `beats`, `grant`; beats in `r_*`."""

    def __init__(self, geometry: Geometry) -> None:
        self.request = Signal()
        self.address = Signal(geometry.address_bits)
        self.beats = Signal(range(257))
        self.grant = Signal()
        self.r_valid = Signal()
        self.r_last = Signal()
        self.r_data = Signal(geometry.bus_bits)


class ReadMaster(Elaboratable):
    """Carries out transfers from DRAM to scratchpads. `start` with `transfer` begins one; see the two sides.

    `write` is registered: it follows the data side's step by one cycle, since mapping it to banks takes time.
    """

    def __init__(self, geometry: Geometry, memories: Sequence[MemoryType], pending: int) -> None:
        beats = geometry.config.timing.dma_fifo_beats
        self.address_side = AddressSide(geometry, memories, beats)
        self.data_side = DataSide(geometry, memories, pending)
        self.fifo = Fifo(geometry.bus_bits + 1, beats)
        self.port = ReadPort(geometry)
        self.start = Signal()
        self.stop, self.hold = self.data_side.stop, self.data_side.hold
        self.transfer = structured(self.data_side.transfer.shape())
        self.idle = self.address_side.idle
        self.write = BeatWrite(geometry, memories)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        m.submodules.address_side = address_side = self.address_side
        m.submodules.data_side = data_side = self.data_side
        m.submodules.fifo = fifo = self.fifo
        port = self.port
        for register, signal in zip(self.write.signals, data_side.write.signals, strict=True):
            m.d.sync += register.eq(signal)
        m.d.comb += [
            address_side.start.eq(self.start),
            address_side.transfer.eq(self.transfer),
            data_side.start.eq(self.start),
            data_side.transfer.eq(self.transfer),
            port.request.eq(address_side.request),
            port.address.eq(address_side.address),
            port.beats.eq(address_side.beats),
            address_side.grant.eq(port.grant),
            fifo.w_en.eq(port.r_valid),
            fifo.w_data.eq(port.r_data | (port.r_last << len(port.r_data))),
            data_side.beat_valid.eq(fifo.r_valid),
            data_side.beat.eq(fifo.r_data),
            fifo.r_en.eq(data_side.take),
            address_side.beat.eq(data_side.take),
            address_side.last.eq(fifo.r_data[-1]),
        ]
        return m
