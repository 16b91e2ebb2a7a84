"""The scratchpads that only a load writes and only compute reads: uop, inp, wgt and par; and lut, read by lanes."""

from amaranth import Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.hdl import Value

from lathe.isa.table import MemoryType
from lathe.rtl.banking import Banking, LaneMap, select
from lathe.rtl.derived_widths import Geometry, log2
from lathe.rtl.padding import in_scratchpad
from lathe.rtl.ram import Ram, replicated
from lathe.rtl.read_data import BeatWrite


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
        writes = Writes(m, self.geometry, self.memory, self.write)
        banking = writes.banking
        r_bank = Signal(max(1, banking.bank_bits))
        if banking.bank_bits:
            with m.If(self.r_en):
                m.d.sync += r_bank.eq(banking.bank_of(self.r_index))
        read = []
        for bank, (en, row, data) in enumerate(writes.banks):
            ram = Ram(len(self.r_data), banking.rows, parts=writes.parts)
            m.submodules[f"bank{bank}"] = ram
            m.d.comb += [
                ram.w_en.eq(en),
                ram.w_addr.eq(row),
                ram.w_data.eq(data),
                ram.r_en.eq(self.r_en),
                ram.r_addr.eq(banking.row_of(self.r_index)),
            ]
            read.append(ram.r_data)
        m.d.comb += self.r_data.eq(select(r_bank, read))
        return m


class LookupTables(Elaboratable):
    """The scratchpad lut: every value of an accumulator element reads a byte of its lane, each at an index of its own.

    `write` as above. `r_index` in cycle t, `index_bits` for each value, gives the bytes `r_data` in t + 1. Values of
    several samples have copies of their lane.
    """

    def __init__(self, geometry: Geometry, write: BeatWrite) -> None:
        self.geometry, self.write = geometry, write
        self.index_bits = log2(geometry.depth(MemoryType.LUT))
        self.values = geometry.config.batch * geometry.config.block_out
        self.r_en = Signal()
        self.r_index = Signal(self.values * self.index_bits)
        self.r_data = Signal(self.values * 8)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        writes = Writes(m, self.geometry, MemoryType.LUT, self.write)
        lanes = self.geometry.config.block_out
        found = []
        for value in range(self.values):
            lane = value % lanes
            index = self.r_index.word_select(value, self.index_bits)
            found.append(self._byte(m, writes, f"value{value}", lane, lane * writes.parts // lanes, index))
        m.d.comb += self.r_data.eq(Cat(*found))
        return m

    def _byte(self, m: Module, writes: "Writes", name: str, lane: int, part: int, index: Value) -> Value:
        """What is read of a lane, which is in the given part of an element."""
        banking = writes.banking
        r_bank = Signal(max(1, banking.bank_bits), name=f"{name}_bank")
        if banking.bank_bits:
            with m.If(self.r_en):
                m.d.sync += r_bank.eq(banking.bank_of(index))
        read = []
        for bank, (en, row, data) in enumerate(writes.banks):
            ram = Ram(8, banking.rows)
            m.submodules[f"{name}_{bank}"] = ram
            m.d.comb += [
                ram.w_en.eq(en[part]),
                ram.w_addr.eq(row),
                ram.w_data.eq(data[8 * lane : 8 * lane + 8]),
                ram.r_en.eq(self.r_en),
                ram.r_addr.eq(banking.row_of(index)),
            ]
            read.append(ram.r_data)
        return select(r_bank, read)


class Writes:
    """What the steps of a data side write into each bank of a memory type's scratchpad.

    For each of `banks` of `banking`: enable of each of the `parts` of an element, row, element.
    """

    def __init__(self, m: Module, geometry: Geometry, memory: MemoryType, write: BeatWrite) -> None:
        depth, bus, shift = geometry.depth(memory), geometry.bus_bytes, geometry.shift(memory)
        size = 1 << shift
        lanes = max(1, bus // size)
        self.banking = banking = Banking(depth, min(lanes, depth))
        self.parts = parts = max(1, size // bus)
        en = Signal()
        m.d.comb += en.eq(write.en & (write.memory == memory))
        index = Signal(max(1, log2(depth)))
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
        padding = in_scratchpad(write.padding, memory, size)
        self.banks: list[tuple[Value, Value, Value]] = []
        for bank in range(banking.banks):
            source = select(places.lane[bank], beat_lanes) if parts == 1 else replicated(write.data, parts)
            enable, content = Signal(parts, name=f"w_en{bank}"), Signal(size * 8, name=f"w_data{bank}")
            m.d.comb += [
                enable.eq(Mux(en & places.valid[bank], part, 0)),
                content.eq(Mux(write.pad, padding, source)),
            ]
            self.banks.append((enable, places.row[bank], content))
