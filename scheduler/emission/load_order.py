"""LOADs in the order in which their data are wanted, as soon as there is room for them.

The load unit takes its instructions in their order. One whose cells are still in use holds up all behind it, also those
that could begin: weights of the next tile behind the inputs of this one, of which each waits for the products before.
Here every LOAD has a time from which on its cells are free and its data stored, and one at which an instruction reads
them, by the steps that the compute unit takes if it never waits. Of those that may begin, the load unit takes the one
that is wanted first (Jackson's rule: "Scheduling a production line to minimize maximum tardiness", 1955). A LOAD is
cut where another comes between.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from heapq import heappop, heappush
from itertools import pairwise
from math import ceil

import numpy as np

from lathe.configs import HardwareConfig
from lathe.isa import Load, Unit, unit_of
from lathe.isa.instructions import RowsInstruction, moves_rows, runs_micro_ops
from lathe.isa.operands import usage_of
from lathe.isa.table import MEMORIES
from lathe.scheduler.emission.first_reads import FirstReads
from lathe.scheduler.emission.footprints import Cells, Footprint, Footprints
from lathe.scheduler.emission.last_uses import NONE, LastUses
from lathe.scheduler.state.memories import DRAM, OPERANDS
from lathe.scheduler.state.signals import Entry, Marker, Origin

Entries = list[tuple[Entry, Origin]]
PART = 256
"""Beats of a part of a LOAD, at least: another LOAD may come between two of them."""
MOST_PARTS = 64
"""Of one LOAD."""
HANDLING = 12
"""Cycles of an instruction beside its steps."""
WORTH = 64
"""Cycles that another order must save."""


@dataclass(frozen=True)
class _Part:
    """Elements of a LOAD, so many from ``first`` on in its own order; ``at``: its place in the stream.

    ``free``: the place of the last instruction that must be done before, or NONE; ``wanted``: of the first that reads
    them, or of the end; ``after``: of LOADs that bring other elements to the same cells, which nobody reads. ``beats``:
    on the bus.
    """

    at: int
    first: int
    count: int
    beats: float
    free: int
    wanted: int
    after: tuple[int, ...]

    def joined(self, other: "_Part") -> "_Part":
        """Both as one, the other behind."""
        free, wanted = max(self.free, other.free), min(self.wanted, other.wanted)
        return _Part(self.at, self.first, self.count + other.count, self.beats + other.beats, free, wanted, self.after)


def loads_in_order(entries: Entries, footprints: Footprints) -> Entries:
    """The stream with LOADs of the load unit moved towards its beginning, if the compute unit waits less by that.

    A stream with tokens by hand stays as it is.
    """
    if any(isinstance(each, Marker) for each, _ in entries):
        return entries
    parts = list(_parts(entries, footprints))
    times = _Times(entries, footprints.config)
    order = times.wanted_first([part for of_load in parts for part in of_load])
    whole = [reduce(_Part.joined, of_load) for of_load in parts]
    if times.waiting(order) + WORTH > times.waiting(whole):
        return entries
    return _placed(entries, order)


@dataclass(frozen=True)
class _Whole:
    """A LOAD in its place, where it may be cut, when the cells of each part are ``free``, and as ``_Part`` says.

    ``slot``: the number of its first element among all that are loaded; ``stored``: what it reads that is stored.
    """

    place: int
    edges: list[int]
    free: list[int]
    after: tuple[int, ...]
    slot: int
    stored: "Cells | None"


def _parts(entries: Entries, footprints: Footprints) -> Iterator[list[_Part]]:
    """The LOADs of the load unit in their order, each in its parts."""
    uses, reads = LastUses(footprints, (*OPERANDS, DRAM)), FirstReads(footprints.config)
    wholes: dict[int, _Whole] = {}
    stores: dict[int, Cells] = {}
    for place, (each, _) in enumerate(entries):
        assert not isinstance(each, Marker), f"signal {each} in a stream without any"
        footprint, unit = footprints.of(each), unit_of(each)
        if isinstance(each, Load) and unit is Unit.LOAD and footprint.writes:
            ((memory, cells),) = footprint.writes
            assert isinstance(cells, slice), "a LOAD writes cells that adjoin"
            before = max(uses.needed(Footprint(footprint.reads), unit))
            last = uses.last((Unit.COMPUTE, Unit.STORE), memory, cells)
            loaded = uses.last((Unit.LOAD,), memory, cells)
            unread = loaded > last
            after: tuple[int, ...] = ()
            if unread.any():
                after = tuple(np.unique(loaded[unread]).tolist())
                before = max(before, *(free for other in after for free in wholes[other].free))
                reads.read(memory, cells.start + np.flatnonzero(unread), place)
            edges = _edges(each, cells.stop - cells.start, footprints.config)
            free = [max(before, each) for each in np.maximum.reduceat(last, edges[:-1]).tolist()]
            stored = next((those for other, those in footprint.reads if other == DRAM), None)
            wholes[place] = _Whole(place, edges, free, after, reads.loaded(memory, cells), stored)
        for memory, cells in footprint.reads:
            reads.read(memory, cells, place)
        for memory, cells in footprint.writes:
            if memory == DRAM:
                stores[place] = cells
        uses.note(footprint, unit, place)
    first_reads = reads.found(len(entries))
    ends = _overwritten(wholes, stores, uses.writers[DRAM].size, len(entries))
    for place, whole in wholes.items():
        load = entries[place][0]
        assert isinstance(load, Load), f"{load} is no LOAD"
        beats = _beats(load, footprints.config) / max(whole.edges[-1], 1)
        own = first_reads[whole.slot : whole.slot + whole.edges[-1]]
        read = np.minimum.reduceat(own, whole.edges[:-1]).tolist()
        yield [
            _Part(place, a, b - a, (b - a) * beats, last_use, min(ends[place], first), whole.after)
            for (a, b), last_use, first in zip(pairwise(whole.edges), whole.free, read, strict=True)
        ]


def _overwritten(wholes: Mapping[int, _Whole], stores: Mapping[int, Cells], size: int, end: int) -> dict[int, int]:
    """By the place of a LOAD that of the next STORE to what it reads, or the end."""
    next_store = np.full(size, end, np.int64)
    found: dict[int, int] = {}
    for place in sorted((*wholes, *stores), reverse=True):
        if place in stores:
            next_store[stores[place]] = place
        else:
            stored = wholes[place].stored
            found[place] = end if stored is None else int(next_store[stored].min())
    return found


def _edges(load: Load, count: int, config: HardwareConfig) -> list[int]:
    """Where a LOAD of ``count`` elements may be cut."""
    dense = load.y_size == 1 or load.x_stride == load.x_size
    if load.x_pad_0 or load.x_pad_1 or load.y_pad_0 or load.y_pad_1:
        return [0, count]
    unit = 1 if dense else load.x_size
    beats = _beats(load, config) / (count // unit)
    step = unit * max(ceil(PART / beats), ceil(count / unit / MOST_PARTS))
    return [*range(0, count, step), count]


def _beats(each: RowsInstruction, config: HardwareConfig) -> float:
    """Cycles that an instruction's data take the bus."""
    size = MEMORIES[each.memory_type].element_bytes(config) if isinstance(each, Load) else config.out_element_bytes
    return each.y_size * ceil(each.x_size * size / config.bus_bytes) * config.memory.cycles_per_beat


class _Times:
    """When instructions begin and end, in cycles, if the compute unit never waits."""

    def __init__(self, entries: Entries, config: HardwareConfig) -> None:
        self.latency = config.memory.latency + HANDLING
        self.begin, self.end = np.zeros(len(entries) + 1), np.zeros(len(entries) + 1)
        now = stored = 0.0
        for place, (each, _) in enumerate(entries):
            assert not isinstance(each, Marker), f"signal {each} in a stream without any"
            self.begin[place] = self.end[place] = now
            unit = unit_of(each)
            if unit is Unit.COMPUTE:
                now += HANDLING
                if runs_micro_ops(each):
                    now += each.iter_out * each.iter_in * (each.uop_end - each.uop_bgn) * usage_of(each).steps
                elif moves_rows(each) and each.x_size:
                    now += _beats(each, config) + config.memory.latency
                self.end[place] = now
            elif unit is Unit.STORE and moves_rows(each):
                stored = max(stored, now) + _beats(each, config) + self.latency
                self.end[place] = stored
        self.begin[-1] = self.end[-1] = now

    def _released(self, part: _Part) -> float:
        return float(self.end[part.free]) if part.free != NONE else 0.0

    def waiting(self, order: Sequence[_Part]) -> float:
        """Cycles that the compute unit waits for LOADs in this order."""
        late, now = _Delays(), 0.0
        for part in order:
            now = max(now, self._released(part) + late.at(part.free)) + part.beats
            late.add(part.wanted, now + self.latency - self.begin[part.wanted])
        return late.total

    def wanted_first(self, parts: Sequence[_Part]) -> list[_Part]:
        """The parts in another order: of those that may begin, that which is wanted first; neighbours joined."""
        behind = sorted(parts, key=lambda part: (part.free, part.at, part.first), reverse=True)
        wanted = sorted((part.wanted for part in parts), reverse=True)
        taken: Counter[int] = Counter()
        left = Counter(part.at for part in parts)
        free: list[tuple[float, int, int, _Part]] = []
        ready: list[tuple[int, int, int, _Part]] = []
        late, now = _Delays(), 0.0
        order: list[_Part] = []
        for _ in parts:
            while taken[wanted[-1]]:
                taken[wanted.pop()] -= 1
            # One whose cells are in use until something is done that wants another comes behind that one.
            while behind and behind[-1].free < wanted[-1] and not any(left[each] for each in behind[-1].after):
                part = behind.pop()
                heappush(free, (self._released(part), part.at, part.first, part))
            if not ready:
                now = max(now, free[0][0] + late.at(free[0][-1].free))
            while free and free[0][0] + late.at(free[0][-1].free) <= now:
                *_, part = heappop(free)
                heappush(ready, (part.wanted, part.at, part.first, part))
            *_, part = heappop(ready)
            taken[part.wanted] += 1
            left[part.at] -= 1
            now += part.beats
            late.add(part.wanted, now + self.latency - self.begin[part.wanted])
            last = order[-1] if order else None
            if last is not None and (last.at, last.first + last.count) == (part.at, part.first):
                order[-1] = last.joined(part)
            else:
                order.append(part)
        return order


class _Delays:
    """By how much instructions come later than they would if none waited: from some places on by so much in all."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self.totals: list[float] = []

    @property
    def total(self) -> float:
        """At the end."""
        return self.totals[-1] if self.totals else 0.0

    def at(self, place: int) -> float:
        """At a place of the stream."""
        found = bisect_right(self.places, place)
        return self.totals[found - 1] if found else 0.0

    def add(self, place: int, delay: float) -> None:
        """The instruction at a place, and so all behind it, is late by so much in all, if it is not already."""
        found = bisect_right(self.places, place)
        more = delay - (self.totals[found - 1] if found else 0.0)
        if more > 0:
            self.totals[found:] = [total + more for total in self.totals[found:]]
            self.places.insert(found, place)
            self.totals.insert(found, delay)


def _placed(entries: Entries, order: Sequence[_Part]) -> Entries:
    """The stream with its LOADs in this order, each as early as it may come."""
    moved = {part.at for part in order}
    stream: Entries = []
    ahead = iter(order)
    part = next(ahead, None)
    for place in range(len(entries) + 1):
        while part is not None and part.free < place:
            assert place <= part.wanted, f"LOAD {part.at} comes behind what reads it"
            load, origin = entries[part.at]
            assert isinstance(load, Load), f"{load} is no LOAD"
            stream.append((_cut(load, part), origin))
            part = next(ahead, None)
        if place < len(entries) and place not in moved:
            stream.append(entries[place])
    assert part is None, "every LOAD has a place"
    return stream


def _cut(load: Load, part: _Part) -> Load:
    """Some elements of a LOAD."""
    begin, count = part.first, part.count
    if load.x_pad_0 or load.x_pad_1 or load.y_pad_0 or load.y_pad_1:
        return load
    own = replace(load, sram_base=load.sram_base + begin)
    if load.y_size == 1 or load.x_stride == load.x_size:
        if count == load.y_size * load.x_size:
            return load
        return replace(own, dram_base=load.dram_base + begin, y_size=1, x_size=count, x_stride=count)
    row, rows = begin // load.x_size, count // load.x_size
    stride = load.x_stride if rows > 1 else load.x_size
    return replace(own, dram_base=load.dram_base + row * load.x_stride, y_size=rows, x_stride=stride)
