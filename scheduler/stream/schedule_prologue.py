"""Scheduling of the prologue: the loads before the first GEMM in order of first use, and the first GEMMs split.

The first GEMM waits for all loads before it. Data that only later ones read, such as weights of later input channels,
can come later: a LOAD is split where its vectors are first used by different chunks, or within the first chunk where
the work between two uses hides the second slice, and slices are ordered by first use.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from lathe.isa import Gemm, Load, Unit, unit_of
from lathe.isa.instructions import runs_micro_ops
from lathe.scheduler.schedule_ir.memories import DRAM, OPERANDS
from lathe.scheduler.schedule_ir.sync import Entry, Marker, Origin
from lathe.scheduler.stream.first_uses import FirstReads
from lathe.scheduler.stream.memory_effects import EffectsTracker, beats_of

Entries = list[tuple[Entry, Origin]]
WINDOW = 256
"""Instructions from the first GEMM on that are analysed: loads for later ones are hidden by earlier work."""
MAX_SLICES = 96
"""Greatest number of slices of a LOAD: each has an overhead in the load unit."""
MAX_LATENCY = 2
"""Greatest memory latency of the slices of a LOAD, relative to its beats: no more than that can be gained."""
OVERHEAD = 4
"""Overhead of a LOAD besides the memory's latency, in cycles, while a few others are outstanding."""
ENOUGH = 256
"""MAC cycles of the first chunk after which a later first use counts as later; doubled after each such point."""
AFTER_WINDOW = WINDOW
"""The time of a first use after the window, or of none."""


@dataclass(frozen=True)
class _Slice:
    """A slice of the LOAD at position ``at`` of the stream, or all of it; ``used``: its first use (``_Uses``)."""

    load: Load
    at: int
    used: int


def schedule_prologue(entries: Entries, footprints: EffectsTracker) -> Entries:
    """The stream with the LOADs before its first GEMM or ALU instruction split and sorted by first use.

    Only LOADs of the load unit move whose data the program does not store, and none after an instruction that accesses
    its vectors. A stream with manual synchronisation is returned unchanged.
    """
    if any(isinstance(each, Marker) for each, _ in entries):
        return entries
    begin = next((n for n, (each, _) in enumerate(entries) if not isinstance(each, Marker) and runs_micro_ops(each)), 0)
    entries = _split_first_gemms(entries, begin)
    uses = _Uses(entries[: begin + WINDOW], begin, footprints)
    slices = [part for n in range(begin) for part in uses.slices(n)]
    soonest = min((part.used for part in slices), default=AFTER_WINDOW)
    late = sorted((part for part in slices if soonest < part.used < AFTER_WINDOW), key=lambda part: part.used)
    moved = [(part, uses.last_before(part)) for part in late]
    if all(position <= part.at for part, position in moved):
        return entries
    instead: dict[int, list[_Slice]] = {part.at: [] for part in late}
    for part in slices:
        if part.at in instead and not soonest < part.used < AFTER_WINDOW:
            instead[part.at].append(part)
    later: dict[int, list[_Slice]] = defaultdict(list)
    for part, position in moved:
        later[max(position, part.at)].append(part)
    stream: Entries = []
    for n, entry in enumerate(entries[: begin + WINDOW]):  # no LOAD moves beyond these
        if n in instead:
            stream += [(part.load, entry[1]) for part in instead[n]]
        else:
            stream.append(entry)
        if n in later:
            stream += [(part.load, entries[part.at][1]) for part in later[n]]
    return stream + entries[begin + WINDOW :]


def _split_first_gemms(entries: Entries, begin: int) -> Entries:
    """The stream with the GEMMs of the first chunk split, so that none takes more cycles than all before it together.

    So the operands of each are loaded while earlier ones are computed; the order of accumulation does not matter.
    """
    stream, work, chunk = list(entries[:begin]), 0, -1
    for position in range(begin, len(entries)):
        each, origin = entries[position]
        if work and origin.chunk != chunk:
            return [*stream, *entries[position:]]
        if not isinstance(each, Gemm) or each.reset:
            stream.append((each, origin))
            continue
        chunk = origin.chunk
        loops, first = each.iter_out * each.iter_in, each.uop_bgn
        while work >= ENOUGH and (each.uop_end - first) * loops > work >= loops:
            stream.append((replace(each, uop_bgn=first, uop_end=first + work // loops), origin))
            first, work = first + work // loops, work + work // loops * loops
        stream.append((replace(each, uop_bgn=first), origin))
        work += (each.uop_end - first) * loops
    return stream


def _is_accumulation(each: Entry) -> bool:
    return isinstance(each, Gemm) and not each.reset


class _Uses:
    """First-use times of the vectors that LOADs in the window load, as positions relative to the first GEMM."""

    def __init__(self, entries: Sequence[tuple[Entry, Origin]], begin: int, footprints: EffectsTracker) -> None:
        self.entries = entries
        self._moving: set[int] = set()
        self.begin = begin
        self.config = footprints.config
        reads, loaded = FirstReads(self.config), {}
        time, chunk, work, enough = 0, -1, 0, ENOUGH
        first = next((origin.chunk for each, origin in entries[begin:] if _is_accumulation(each)), -1)
        for n, (each, origin) in enumerate(entries):
            assert not isinstance(each, Marker), f"marker {each} in a stream without manual synchronisation"
            footprint = footprints.of(each)
            later = chunk == first and work >= enough  # all reads of other chunks count as simultaneous
            if origin.chunk != chunk or chunk < 0 or later:
                enough = 2 * enough if origin.chunk == chunk else ENOUGH
                time, chunk, work = n, origin.chunk, 0
            if isinstance(each, Gemm):
                work += each.iter_out * each.iter_in * (each.uop_end - each.uop_bgn)
            for memory, cells in footprint.reads:
                reads.read(memory, cells, time - begin)
            for memory, cells in footprint.writes:
                if memory in OPERANDS and isinstance(each, Load):
                    assert isinstance(cells, slice), "a LOAD must write contiguous addresses"
                    count = cells.stop - cells.start
                    loaded[n] = slice(slot := reads.loaded(memory, cells), slot + count)
            if isinstance(each, Load) and all(memory != DRAM for memory, _ in footprint.reads):
                self._moving.add(n)
        times = reads.times(AFTER_WINDOW)
        self.first = {n: times[slots] for n, slots in loaded.items()}  # per LOAD, the first use of each vector

    def slices(self, n: int) -> Iterator[_Slice]:
        """A LOAD before the first GEMM, split by first use where that is possible and pays."""
        load = self.entries[n][0]
        if n not in self.first or not isinstance(load, Load) or unit_of(load) is not Unit.LOAD:
            return
        first = self.first[n]
        edges = [0, *(np.flatnonzero(np.diff(first)) + 1).tolist(), len(first)]
        padded = load.x_pad_0 or load.x_pad_1 or load.y_pad_0 or load.y_pad_1
        dense = load.y_size == 1 or load.x_stride == load.x_size
        rows = not any(edge % load.x_size for edge in edges)  # each slice has whole rows
        waiting = (len(edges) - 2) * (self.config.memory.latency + OVERHEAD) / self.config.timing.dma_pending
        worth = 2 < len(edges) <= MAX_SLICES + 1 and waiting <= MAX_LATENCY * beats_of(load, self.config)
        if n not in self._moving or padded or not (dense or rows) or not worth:
            yield _Slice(load, n, 0 if n not in self._moving else int(first.min()))
            return
        for begin, end in pairwise(edges):
            part = replace(load, sram_base=load.sram_base + begin)
            if dense:
                size = end - begin
                part = replace(part, dram_base=load.dram_base + begin, y_size=1, x_size=size, x_stride=size)
            else:
                row, count = begin // load.x_size, (end - begin) // load.x_size
                stride = load.x_stride if count > 1 else load.x_size
                part = replace(part, dram_base=load.dram_base + row * load.x_stride, y_size=count, x_stride=stride)
            yield _Slice(part, n, int(first[begin]))

    def last_before(self, part: _Slice) -> int:
        """The position of the last LOAD before the first use of a slice whose data are used earlier than it."""
        loads = (n for n in self.first if part.at < n < self.begin + part.used)
        return max((n for n in loads if self.first[n].min() < part.used), default=part.at)
