"""The scratchpads that only loads write and only compute reads: uop, inp, wgt and par; and lut, read by each lane."""

from amaranth import Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.hdl import Value

from lathe.isa.table import MemoryType
from lathe.rtl.banking import Banking, BeatMap, select
from lathe.rtl.derived_widths import Geometry, log2
from lathe.rtl.padding import scratchpad_padding
from lathe.rtl.ram import Ram, replicated
from lathe.rtl.read_data import BeatWrite


class Scratchpad(Elaboratable):
    """The scratchpad of one memory type.

    `write` comes from a data side; writes of other memory types are ignored. `r_index` in cycle t gives the vector
    `r_data` in t + 1.
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
    """The scratchpad lut: each value of an accumulator vector reads a byte of its lane, at an index of its own.

    `write` as above. `r_index` in cycle t, `index_bits` for each value, gives the bytes `r_data` in t + 1. Each sample
    of the batch has its own copy of the tables.
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
        bytes_ = []
        for value in range(self.values):
            lane = value % lanes
            index = self.r_index.word_select(value, self.index_bits)
            bytes_.append(self._byte(m, writes, f"value{value}", lane, lane * writes.parts // lanes, index))
        m.d.comb += self.r_data.eq(Cat(*bytes_))
        return m

    def _byte(self, m: Module, writes: "Writes", name: str, lane: int, part: int, index: Value) -> Value:
        """The byte that is read from the table of a lane, which is in this part of a vector."""
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
    """The writes of a data side to each bank of the scratchpad of a memory type.

    For each of `banks` of `banking`: enable of each of the `parts` of a vector, row, vector.
    """

    def __init__(self, m: Module, geometry: Geometry, memory: MemoryType, write: BeatWrite) -> None:
        depth, bus, shift = geometry.depth(memory), geometry.bus_bytes, geometry.shift(memory)
        size = 1 << shift
        slots = max(1, bus // size)
        self.banking = banking = Banking(depth, min(slots, depth))
        self.parts = parts = max(1, size // bus)
        en = Signal()
        m.d.comb += en.eq(write.en & (write.memory == memory))
        index = Signal(max(1, log2(depth)))
        m.d.comb += index.eq(write.address >> shift)
        if slots > 1:
            first = Mux(write.pad, 0, write.offset >> shift)
            count = Mux(write.pad, 1, write.size >> shift)
        else:
            first, count = Const(0, 1), Const(1, 1)
        beat_map = BeatMap(m, banking, slots, index, first, count, "w")
        part = Signal(max(1, parts))
        if parts > 1:
            which = (write.address >> log2(bus))[: log2(parts)]
            m.d.comb += part.eq(Mux(write.pad, -1, 1 << which))
        else:
            m.d.comb += part.eq(1)
        beat_slots = [write.data[slot * size * 8 : (slot + 1) * size * 8] for slot in range(slots)]
        padding = scratchpad_padding(write.padding, memory, size)
        self.banks: list[tuple[Value, Value, Value]] = []
        for bank in range(banking.banks):
            source = select(beat_map.slot[bank], beat_slots) if parts == 1 else replicated(write.data, parts)
            enable, content = Signal(parts, name=f"w_en{bank}"), Signal(size * 8, name=f"w_data{bank}")
            m.d.comb += [
                enable.eq(Mux(en & beat_map.valid[bank], part, 0)),
                content.eq(Mux(write.pad, padding, source)),
            ]
            self.banks.append((enable, beat_map.row[bank], content))
