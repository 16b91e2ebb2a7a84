"""The scratchpad acc, and out, a copy of its low bytes that every write of acc updates and that store reads."""

from amaranth import Cat, Const, Elaboratable, Module, Mux, Signal
from amaranth.hdl import Value

from lathe.isa.table import MemoryType
from lathe.rtl.banking import Banking, BeatMap, joined, select
from lathe.rtl.derived_widths import Geometry, log2
from lathe.rtl.padding import accumulator_padding
from lathe.rtl.ram import Ram, replicated
from lathe.rtl.read_data import BeatWrite
from lathe.rtl.stall import delayed

VALUE_BYTES = 4


class Accumulators(Elaboratable):
    """Written by LOAD acc and acc8 through `load` and by the pipeline through `w_*`, never by both in one cycle.

    `r_index` in cycle t gives the vector `r_data` in t + 1, including a write in t: this forwarding lets consecutive
    micro-ops update one accumulator. `out_address` (bytes of out), `out_offset` and `out_size` in t give the beat
    `out_data` in t + 2, with these bytes of out from byte `out_offset` of the beat on.
    """

    def __init__(self, geometry: Geometry, load: BeatWrite) -> None:
        self.geometry, self.load = geometry, load
        depth = geometry.depth(MemoryType.ACC)
        self.values = geometry.config.batch * geometry.config.block_out
        self.slots = max(1, geometry.bus_bytes // self.values)  # out or acc8 vectors per beat
        self.banking = Banking(depth, min(self.slots, depth))
        bits = max(1, log2(depth))
        width = self.values * VALUE_BYTES * 8
        self.w_en = Signal()
        self.w_index = Signal(bits)
        self.w_data = Signal(width, reset_less=True)
        self.r_en = Signal()
        self.r_index = Signal(bits)
        self.r_data = Signal(width)
        self.out_en = Signal()
        self.out_address = Signal(bits + log2(self.values))
        self.out_offset = Signal(range(geometry.bus_bytes))
        self.out_size = Signal(range(geometry.bus_bytes + 1))
        self.out_data = Signal(geometry.bus_bits)
        # Of the requested beat: the bank of its first vector, or, if a vector is wider than a beat, the piece of it.
        self.r_origin = Signal(max(1, self.banking.bank_bits))
        self.r_piece = Signal(max(1, log2(max(1, self.values // geometry.bus_bytes))))

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        banking, values, bus = self.banking, self.values, self.geometry.bus_bytes
        # A part of an acc vector is what one beat of LOAD acc writes of it.
        part_bytes = min(bus, values * VALUE_BYTES)
        parts = values * VALUE_BYTES // part_bytes
        loads = self._loads(m, parts)
        out_rows = self._out_rows(m)
        out_read_en = Signal()
        m.d.sync += out_read_en.eq(self.out_en)
        r_bank = Signal(max(1, banking.bank_bits))
        if banking.bank_bits:
            with m.If(self.r_en):
                m.d.sync += r_bank.eq(banking.bank_of(self.r_index))
        acc_read, out_read = [], []
        for bank, (l_en, l_row, l_data) in enumerate(loads):
            acc = Ram(values * VALUE_BYTES * 8, banking.rows, parts=parts, forward=True)
            out_parts = max(1, values // max(1, part_bytes // VALUE_BYTES))
            out = Ram(values * 8, banking.rows, parts=out_parts)
            m.submodules[f"acc{bank}"], m.submodules[f"out{bank}"] = acc, out
            own = banking.bank_of(self.w_index) == bank if banking.bank_bits else 1
            chosen = acc.w_data.word_select
            m.d.comb += [
                acc.w_en.eq(Mux(self.w_en & own, -1, l_en)),
                acc.w_addr.eq(Mux(self.w_en, banking.row_of(self.w_index), l_row)),
                acc.w_data.eq(Mux(self.w_en, self.w_data, l_data)),
                acc.r_en.eq(self.r_en),
                acc.r_addr.eq(banking.row_of(self.r_index)),
                # The parts of out correspond to those of acc; the low byte of a 32-bit value is in its first part.
                out.w_en.eq(Cat(*(acc.w_en[i * parts // out_parts] for i in range(out_parts)))),
                out.w_addr.eq(acc.w_addr),
                out.w_data.eq(Cat(*(chosen(value, 32)[:8] for value in range(values)))),
                out.r_en.eq(out_read_en),
                out.r_addr.eq(out_rows[bank]),
            ]
            acc_read.append(acc.r_data)
            out_read.append(out.r_data)
        m.d.comb += self.r_data.eq(select(r_bank, acc_read))
        self._out_beat(m, out_read)
        return m

    def _loads(self, m: Module, parts: int) -> list[tuple[Signal, Signal, Signal]]:
        """The write of a load in each bank: enable of each part, row, data."""
        load, banking, values, bus = self.load, self.banking, self.values, self.geometry.bus_bytes
        geometry = self.geometry
        writes = []
        sources = []
        for memory in (MemoryType.ACC, MemoryType.ACC8):
            size = values * (VALUE_BYTES if memory is MemoryType.ACC else 1)
            slots = max(1, bus // size)
            index = Signal.like(self.w_index, name=f"{memory.name.lower()}_index")
            m.d.comb += index.eq(load.address >> geometry.shift(memory))
            if slots > 1:
                first = Mux(load.pad, 0, load.offset >> geometry.shift(memory))
                count = Mux(load.pad, 1, load.size >> geometry.shift(memory))
            else:
                first, count = Const(0, 1), Const(1, 1)
            beat_map = BeatMap(m, banking, slots, index, first, count, memory.name.lower())
            pieces = max(1, size // bus)  # beats per vector
            piece = (load.address >> log2(bus))[: log2(pieces)] if pieces > 1 else None
            spread = parts // pieces  # parts that a beat of a vector writes
            enable = Signal(parts, name=f"{memory.name.lower()}_parts")
            if piece is None:
                m.d.comb += enable.eq(-1)
            else:
                hit = Cat(*(((piece == i // spread) | load.pad) for i in range(parts)))
                m.d.comb += enable.eq(hit)
            chunk = min(size, bus) * 8
            beat_slots = [load.data[slot * chunk : (slot + 1) * chunk] for slot in range(slots)]
            sources.append((memory, beat_map, enable, beat_slots, pieces))
        padding = accumulator_padding(load.padding, values)
        for bank in range(banking.banks):
            en = Signal(parts, name=f"load_en{bank}")
            row = Signal(range(max(2, banking.rows)), name=f"load_row{bank}")
            content = Signal(values * VALUE_BYTES * 8, name=f"load_data{bank}")
            for memory, beat_map, enable, beat_slots, pieces in sources:
                slot = select(beat_map.slot[bank], beat_slots)
                whole = replicated(slot, pieces)
                if memory is MemoryType.ACC8:
                    whole = Cat(*(_byte_extended(whole, value) for value in range(values)))
                with m.If(load.memory == memory):
                    m.d.comb += [
                        en.eq(Mux(load.en & beat_map.valid[bank], enable, 0)),
                        row.eq(beat_map.row[bank]),
                        content.eq(Mux(load.pad, padding, whole)),
                    ]
            writes.append((en, row, content))
        return writes

    def _out_rows(self, m: Module) -> list[Value]:
        """The row that each bank of out reads for the beat that store requests."""
        size = self.values
        shift = log2(size)
        index = Signal.like(self.w_index)
        m.d.comb += index.eq(self.out_address >> shift)
        if self.slots > 1:
            first, count = self.out_offset >> shift, self.out_size >> shift
        else:
            first, count = Const(0, 1), Const(1, 1)
        beat_map = BeatMap(m, self.banking, self.slots, index, first, count, "out")
        # Rows and banks are computed in one cycle, the memory is read in the next, and its data come in the one after.
        if self.banking.bank_bits:
            m.d.sync += self.r_origin.eq(delayed(m, 1, self.banking.bank_of(index - first), reset=False)[0])
        pieces = max(1, size // self.geometry.bus_bytes)
        if pieces > 1:
            m.d.sync += self.r_piece.eq(
                delayed(m, 1, self.out_address >> log2(self.geometry.bus_bytes), reset=False)[0]
            )
        return delayed(m, 1, *beat_map.row, reset=False)

    def _out_beat(self, m: Module, read: list[Signal]) -> None:
        bus, size, banks = self.geometry.bus_bytes, self.values, self.banking.banks
        if size >= bus:
            pieces = [read[0][i * bus * 8 : (i + 1) * bus * 8] for i in range(size // bus)]
            m.d.comb += self.out_data.eq(select(self.r_piece, pieces))
            return
        vectors = []
        for slot in range(self.slots):
            bank = Signal(max(1, self.banking.bank_bits), name=f"lane{slot}_bank")
            m.d.comb += bank.eq((self.r_origin + slot)[: self.banking.bank_bits] if banks > 1 else 0)
            vectors.append(select(bank, read))
        m.d.comb += self.out_data.eq(joined(vectors))


def _byte_extended(bytes_: Value, index: int) -> Value:
    """Byte `index` of `bytes_`, sign-extended to 32 bits."""
    byte = bytes_[8 * index : 8 * index + 8]
    return Cat(byte, replicated(byte[7], 24))
