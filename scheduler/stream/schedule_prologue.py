"""The loads that a program begins with, in the order of their use, and its first products, cut to wait for less.

The first product waits for all that is loaded before it. What only later ones read, such as the weights of input
channels that come later, can wait: a LOAD is taken apart where its elements are used first by different chunks, or in
the first with so much work between that it hides, and what is used later comes behind what is used before.
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
from lathe.scheduler.stream.memory_effects import Footprints, beats_of

Entries = list[tuple[Entry, Origin]]
WINDOW = 256
"""Instructions from the first product on that are looked at: what comes later hides behind what has begun."""
MOST_PARTS = 96
"""Of one LOAD: each takes the load unit some cycles more."""
WAITING = 2
"""How many times the beats of a LOAD its parts may wait for the memory: more is never won."""
HANDLING = 4
"""Cycles that a LOAD takes besides the memory's latency, while a few others wait for it, too."""
ENOUGH = 256
"""Steps of the first products behind which what their chunk reads later may be loaded; then twice as many each time."""
NOT_SEEN = WINDOW
"""The time of a use that comes later, if there is one."""


@dataclass(frozen=True)
class _Part:
    """A LOAD, or a part of one, in the place ``at`` of the stream, and when it is first read (``_Uses``)."""

    load: Load
    at: int
    used: int


def schedule_prologue(entries: Entries, footprints: Footprints) -> Entries:
    """The stream with its first LOADs in the order of their use.

    Only LOADs of the load unit move, of what the program does not store, and none behind an instruction that touches
    its elements. A stream with tokens by hand stays as it is.
    """
    if any(isinstance(each, Marker) for each, _ in entries):
        return entries
    begin = next((n for n, (each, _) in enumerate(entries) if not isinstance(each, Marker) and runs_micro_ops(each)), 0)
    entries = _in_growing_parts(entries, begin)
    uses = _Uses(entries[: begin + WINDOW], begin, footprints)
    parts = [part for n in range(begin) for part in uses.parts(n)]
    soonest = min((part.used for part in parts), default=NOT_SEEN)
    late = sorted((part for part in parts if soonest < part.used < NOT_SEEN), key=lambda part: part.used)
    behind = [(part, uses.last_before(part)) for part in late]
    if all(place <= part.at for part, place in behind):
        return entries
    instead: dict[int, list[_Part]] = {part.at: [] for part in late}
    for part in parts:
        if part.at in instead and not soonest < part.used < NOT_SEEN:
            instead[part.at].append(part)
    later: dict[int, list[_Part]] = defaultdict(list)
    for part, place in behind:
        later[max(place, part.at)].append(part)
    stream: Entries = []
    for n, entry in enumerate(entries[: begin + WINDOW]):  # none goes behind these
        if n in instead:
            stream += [(part.load, entry[1]) for part in instead[n]]
        else:
            stream.append(entry)
        if n in later:
            stream += [(part.load, entries[part.at][1]) for part in later[n]]
    return stream + entries[begin + WINDOW :]


def _in_growing_parts(entries: Entries, begin: int) -> Entries:
    """The stream with products of the first chunk cut, so that none has more steps than all before it.

    What a part reads is loaded while those before it are computed; sums are added up in any order.
    """
    stream, work, chunk = list(entries[:begin]), 0, -1
    for place in range(begin, len(entries)):
        each, origin = entries[place]
        if work and origin.chunk != chunk:
            return [*stream, *entries[place:]]
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


def _is_product(each: Entry) -> bool:
    return isinstance(each, Gemm) and not each.reset


class _Uses:
    """When the elements that the first LOADs bring are read first, and LOADs are, counted from the first product on."""

    def __init__(self, entries: Sequence[tuple[Entry, Origin]], begin: int, footprints: Footprints) -> None:
        self.entries = entries
        self._moving: set[int] = set()
        self.begin = begin
        self.config = footprints.config
        reads, brought = FirstReads(self.config), {}
        time, chunk, work, enough = 0, -1, 0, ENOUGH
        first = next((origin.chunk for each, origin in entries[begin:] if _is_product(each)), -1)
        for n, (each, origin) in enumerate(entries):
            assert not isinstance(each, Marker), f"signal {each} in a stream without any"
            footprint = footprints.of(each)
            later = chunk == first and work >= enough  # or else a chunk reads all at one time
            if origin.chunk != chunk or chunk < 0 or later:
                enough = 2 * enough if origin.chunk == chunk else ENOUGH
                time, chunk, work = n, origin.chunk, 0
            if isinstance(each, Gemm):
                work += each.iter_out * each.iter_in * (each.uop_end - each.uop_bgn)
            for memory, cells in footprint.reads:
                reads.read(memory, cells, time - begin)
            for memory, cells in footprint.writes:
                if memory in OPERANDS and isinstance(each, Load):
                    assert isinstance(cells, slice), "a LOAD writes cells that adjoin"
                    count = cells.stop - cells.start
                    brought[n] = slice(slot := reads.loaded(memory, cells), slot + count)
            if isinstance(each, Load) and all(memory != DRAM for memory, _ in footprint.reads):
                self._moving.add(n)
        times = reads.found(NOT_SEEN)
        self.first = {n: times[slots] for n, slots in brought.items()}  # of each LOAD, per element

    def parts(self, n: int) -> Iterator[_Part]:
        """A LOAD before the first product, in parts that are used at different times, where it can be taken apart."""
        load = self.entries[n][0]
        if n not in self.first or not isinstance(load, Load) or unit_of(load) is not Unit.LOAD:
            return
        first = self.first[n]
        edges = [0, *(np.flatnonzero(np.diff(first)) + 1).tolist(), len(first)]
        padded = load.x_pad_0 or load.x_pad_1 or load.y_pad_0 or load.y_pad_1
        dense = load.y_size == 1 or load.x_stride == load.x_size
        rows = not any(edge % load.x_size for edge in edges)  # each part is some of the rows
        waiting = (len(edges) - 2) * (self.config.memory.latency + HANDLING) / self.config.timing.dma_pending
        worth = 2 < len(edges) <= MOST_PARTS + 1 and waiting <= WAITING * beats_of(load, self.config)
        if n not in self._moving or padded or not (dense or rows) or not worth:
            yield _Part(load, n, 0 if n not in self._moving else int(first.min()))
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
            yield _Part(part, n, int(first[begin]))

    def last_before(self, part: _Part) -> int:
        """The last place in the stream of a LOAD that brings what is used before a part, while that is not used."""
        loads = (n for n in self.first if part.at < n < self.begin + part.used)
        return max((n for n in loads if self.first[n].min() < part.used), default=part.at)
