"""The scratchpads that only a load writes and only compute reads: uop, inp and wgt."""

from amaranth import Const, Elaboratable, Module, Mux, Signal

from lathe.isa.table import MemoryType
from lathe.rtl.data_side import BeatWrite
from lathe.rtl.geometry import Geometry, log2
from lathe.rtl.lanes import Banking, LaneMap, select
from lathe.rtl.padding import in_scratchpad
from lathe.rtl.ram import Ram, replicated


class Scratchpad(Elaboratable):
    """The scratchpad of one memory type.

    `write` is a step of a data side; those of other memory types are not looked at. `r_index` in cycle t gives the
    element `r_data` in t + 1.
    """

    def __init__(self, geometry: Geometry, memory: MemoryType, write: BeatWrite) -> None:
        self.geometry, self.memory, self.write = geometry, memory, write
        self.depth = geometry.depth(memory)
        self.r_en = Signal()
        self.r_index = Signal(max(1, log2(self.depth)))
        self.r_data = Signal(8 << geometry.shift(memory))

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        write = self.write
        bus, shift = self.geometry.bus_bytes, self.geometry.shift(self.memory)
        size = 1 << shift
        lanes = max(1, bus // size)
        banking = Banking(self.depth, min(lanes, self.depth))
        parts = max(1, size // bus)
        en = Signal()
        m.d.comb += en.eq(write.en & (write.memory == self.memory))
        index = Signal(max(1, log2(self.depth)))
        m.d.comb += index.eq(write.address >> shift)
        if lanes > 1:
            first = Mux(write.pad, 0, write.offset >> shift)
            count = Mux(write.pad, 1, write.size >> shift)
        else:
            first, count = Const(0, 1), Const(1, 1)
        places = LaneMap(m, banking, lanes, index, first, count, "w")
        part = Signal(max(1, parts))
        if parts > 1:
            which = (write.address >> log2(bus))[: log2(parts)]
            m.d.comb += part.eq(Mux(write.pad, -1, 1 << which))
        else:
            m.d.comb += part.eq(1)
        beat_lanes = [write.data[lane * size * 8 : (lane + 1) * size * 8] for lane in range(lanes)]
        r_bank = Signal(max(1, banking.bank_bits))
        if banking.bank_bits:
            with m.If(self.r_en):
                m.d.sync += r_bank.eq(banking.bank_of(self.r_index))
        read = []
        padding = in_scratchpad(write.padding, self.memory, size)
        for bank in range(banking.banks):
            ram = Ram(size * 8, banking.rows, parts=parts)
            m.submodules[f"bank{bank}"] = ram
            source = select(places.lane[bank], beat_lanes) if parts == 1 else replicated(write.data, parts)
            m.d.comb += [
                ram.w_en.eq(Mux(en & places.valid[bank], part, 0)),
                ram.w_addr.eq(places.row[bank]),
                ram.w_data.eq(Mux(write.pad, padding, source)),
                ram.r_en.eq(self.r_en),
                ram.r_addr.eq(banking.row_of(self.r_index)),
            ]
            read.append(ram.r_data)
        m.d.comb += self.r_data.eq(select(r_bank, read))
        return m
