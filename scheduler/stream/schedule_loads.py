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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from heapq import heappop, heappush
from itertools import accumulate, pairwise
from math import ceil
from operator import add
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa import Load, Unit, unit_of
from lathe.isa.instructions import moves_rows, runs_micro_ops
from lathe.isa.operands import usage_of
from lathe.scheduler.layout.vector_type import depth_of
from lathe.scheduler.schedule_ir.memories import DRAM, OPERANDS
from lathe.scheduler.schedule_ir.sync import Entry, Marker, Origin
from lathe.scheduler.stream.last_accesses import NONE
from lathe.scheduler.stream.memory_effects import Cells, Footprints, beats_of, elements_of

Entries = list[tuple[Entry, Origin]]
_Number = TypeVar("_Number", np.int64, np.float64)
PART = 256
"""Beats of a part of a LOAD, at least: another LOAD may come between two of them."""
MOST_PARTS = 64
"""Of one LOAD."""
HANDLING = 12
"""Cycles of an instruction beside its steps."""
WORTH = 64
"""Cycles that another order must save."""
ROUNDING = 1
"""Cycles by which sums of beats may differ with the order in which they are added up, at most."""


class _Part(NamedTuple):
    """Elements of a LOAD, ``size`` from ``first`` on in its own order; ``at``: its place in the stream.

    ``free``: the place of the last instruction that must be done before, or NONE; ``wanted``: of the first that reads
    them, or of the end; ``after``: of LOADs that bring other elements to the same cells, which nobody reads. ``beats``:
    on the bus.
    """

    at: int
    first: int
    size: int
    beats: float
    free: int
    wanted: int
    after: tuple[int, ...]

    def joined(self, other: "_Part") -> "_Part":
        """Both as one, the other behind."""
        free, wanted = max(self.free, other.free), min(self.wanted, other.wanted)
        return _Part(self.at, self.first, self.size + other.size, self.beats + other.beats, free, wanted, self.after)


def loads_in_order(entries: Entries, footprints: Footprints) -> Entries:
    """The stream with LOADs of the load unit moved towards its beginning, if the compute unit waits less by that.

    A stream with tokens by hand stays as it is, and one that waits no longer than it has to in any order.
    """
    if any(isinstance(each, Marker) for each, _ in entries):
        return entries
    loads = _Loads(entries, footprints)
    times = _Times(entries, footprints.config)
    waiting = times.waiting(loads.whole())
    if times.least_waiting(loads) + WORTH > waiting + ROUNDING:
        return entries
    order = times.wanted_first(loads.parts())
    if times.waiting((part.free, part.wanted, part.beats) for part in order) + WORTH > waiting:
        return entries
    return _placed(entries, order)


class _Cut(NamedTuple):
    """How a LOAD is cut, between the first element of each part (``firsts``) and ``edges``, with the end behind them.

    ``beats``: of each part on the bus; ``total``: of all; ``part_of``: the part of each element.
    """

    edges: list[int]
    firsts: NDArray[np.int64]
    beats: NDArray[np.float64]
    total: float
    part_of: NDArray[np.int64]


class _Loads:
    """The LOADs of the load unit in their order and their parts, numbered through: when each may come and must.

    ``free`` and ``wanted``: of each part, as ``_Part`` says; ``begins``: the number of each LOAD's first part;
    ``after``: of LOADs, by place, as ``_Part`` says.
    """

    def __init__(self, entries: Entries, footprints: Footprints) -> None:
        self._cuts = _cuts(entries, footprints.config)
        ends = accumulate(len(cut.beats) for cut in self._cuts.values())
        self.begins = {place: end - len(cut.beats) for (place, cut), end in zip(self._cuts.items(), ends, strict=True)}
        self.beats = _joined([cut.beats for cut in self._cuts.values()], np.float64)
        self.wanted = np.full(len(self.beats), len(entries), np.int64)
        self.after: dict[int, tuple[int, ...]] = {}
        depths = {memory: depth_of(footprints.config, memory) for memory in OPERANDS}
        # Of each cell: the LOAD that has written it last, the number of the part, and who has read it last.
        self._loaded = {memory: np.full(depth, NONE, np.int64) for memory, depth in depths.items()}
        self._part = {memory: np.full(depth, NONE, np.int64) for memory, depth in depths.items()}
        self._read = {memory: np.full(depth, NONE, np.int64) for memory, depth in depths.items()}
        self.free = self._gathered(entries, footprints)

    def _gathered(self, entries: Entries, footprints: Footprints) -> NDArray[np.int64]:
        """Follow the stream to its end; by part what must be done before."""
        (first, end), grain = footprints.tracked, footprints.grain
        last_store = np.full((end - first) // grain + 1, NONE, np.int64)
        stores: dict[int, Cells] = {}
        loads: dict[int, Cells] = {}  # of what the program stores
        free: dict[int, NDArray[np.int64]] = {}
        for place, (each, _) in enumerate(entries):
            assert not isinstance(each, Marker), f"signal {each} in a stream without any"
            footprint = footprints.of(each)
            if place in self._cuts:
                before = NONE
                for memory, cells in footprint.reads:
                    assert memory == DRAM, f"a LOAD reads DRAM, not {memory}"
                    loads[place] = cells
                    before = int(last_store[cells].max(initial=NONE))
                ((memory, cells),) = footprint.writes
                free[place] = self._load(memory, cells, place, before, free)
                continue
            for memory, cells in footprint.reads:
                if memory in self._read:
                    self._wanted_by(memory, cells, place)
                    self._read[memory][cells] = place
            for memory, cells in footprint.writes:
                if memory == DRAM:
                    stores[place] = cells
                    last_store[cells] = place
        if stores:
            ends = _overwritten(loads, stores, len(last_store), len(entries))
            for place, overwritten in ends.items():
                begin = self.begins[place]
                own = self.wanted[begin : begin + len(self._cuts[place].beats)]
                np.minimum(own, overwritten, out=own)
        return _joined(list(free.values()), np.int64)

    def _load(
        self, memory: str, cells: Cells, place: int, before: int, free: Mapping[int, NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        """By part of a LOAD that comes now what must be done before it, if that is told for those that have come."""
        cut, loaded, read = self._cuts[place], self._loaded[memory], self._read[memory][cells]
        unread = loaded[cells] > read
        if unread.any():
            after = tuple(np.unique(loaded[cells][unread]).tolist())
            before = max(before, *(int(free[other].max()) for other in after))
            self.after[place] = after
            self._wanted_by(memory, cells, place)
        loaded[cells] = place
        self._part[memory][cells] = cut.part_of + self.begins[place]
        found: NDArray[np.int64] = np.maximum(np.maximum.reduceat(read, cut.firsts), before)
        return found

    def _wanted_by(self, memory: str, cells: Cells, place: int) -> None:
        """An instruction wants what LOADs have brought to cells, and nobody has read yet."""
        unread = self._loaded[memory][cells] > self._read[memory][cells]
        if unread.any():
            parts = self._part[memory][cells][unread]
            self.wanted[parts] = np.minimum(self.wanted[parts], place)

    def parts(self) -> list[_Part]:
        """All parts."""
        free, wanted, beats = self.free.tolist(), self.wanted.tolist(), self.beats.tolist()
        found = []
        for place, cut in self._cuts.items():
            after = self.after.get(place, ())
            for number, (a, b) in enumerate(pairwise(cut.edges), self.begins[place]):
                found.append(_Part(place, a, b - a, beats[number], free[number], wanted[number], after))
        return found

    def whole(self) -> Iterator[tuple[int, int, float]]:
        """Of each LOAD, as one part, what must be done before it, what wants it, and its beats."""
        begins = list(self.begins.values())
        free = np.maximum.reduceat(self.free, begins).tolist() if begins else []
        wanted = np.minimum.reduceat(self.wanted, begins).tolist() if begins else []
        return zip(free, wanted, (cut.total for cut in self._cuts.values()), strict=True)


def _overwritten(loads: Mapping[int, Cells], stores: Mapping[int, Cells], size: int, end: int) -> dict[int, int]:
    """By the place of a LOAD that of the next STORE to what it reads, or the end."""
    next_store = np.full(size, end, np.int64)
    found: dict[int, int] = {}
    for place in sorted((*loads, *stores), reverse=True):
        if place in stores:
            next_store[stores[place]] = place
        else:
            found[place] = int(next_store[loads[place]].min())
    return found


def _joined(arrays: Sequence[NDArray[_Number]], kind: type[_Number]) -> NDArray[_Number]:
    return np.concatenate(arrays) if arrays else np.zeros(0, kind)


def _cuts(entries: Entries, config: HardwareConfig) -> dict[int, _Cut]:
    """How the LOADs of the load unit are cut, by their places; LOADs of one shape are cut alike."""
    known: dict[tuple[object, ...], _Cut] = {}
    found: dict[int, _Cut] = {}
    for place, (each, _) in enumerate(entries):
        if isinstance(each, Load) and each.x_size and unit_of(each) is Unit.LOAD:
            pads = (each.x_pad_0, each.x_pad_1, each.y_pad_0, each.y_pad_1)
            shape = (each.memory_type, each.y_size, each.x_size, each.x_stride == each.x_size, pads)
            if shape not in known:
                known[shape] = _cut_of(each, config)
            found[place] = known[shape]
    return found


def _cut_of(load: Load, config: HardwareConfig) -> _Cut:
    edges = _edges(load, elements_of(load), config)
    counts = np.diff(edges)
    beats = np.asarray(counts * (beats_of(load, config) / edges[-1]), np.float64)
    part_of = np.repeat(np.arange(len(counts)), counts)
    return _Cut(edges, np.asarray(edges[:-1]), beats, reduce(add, beats.tolist()), part_of)


def _edges(load: Load, count: int, config: HardwareConfig) -> list[int]:
    """Where a LOAD of ``count`` elements may be cut."""
    dense = load.y_size == 1 or load.x_stride == load.x_size
    if load.x_pad_0 or load.x_pad_1 or load.y_pad_0 or load.y_pad_1:
        return [0, count]
    unit = 1 if dense else load.x_size
    beats = beats_of(load, config) / (count // unit)
    step = unit * max(ceil(PART / beats), ceil(count / unit / MOST_PARTS))
    return [*range(0, count, step), count]


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
                    now += beats_of(each, config) + config.memory.latency
                self.end[place] = now
            elif unit is Unit.STORE and moves_rows(each):
                stored = max(stored, now) + beats_of(each, config) + self.latency
                self.end[place] = stored
        self.begin[-1] = self.end[-1] = now

    def _released(self, free: int) -> float:
        return float(self.end[free]) if free != NONE else 0.0

    def waiting(self, order: Iterable[tuple[int, int, float]]) -> float:
        """Cycles that the compute unit waits for LOADs in this order: of each ``free``, ``wanted`` and ``beats``."""
        late, now = _Delays(), 0.0
        for free, wanted, beats in order:
            now = max(now, self._released(free) + late.at(free)) + beats
            late.add(wanted, now + self.latency - self.begin[wanted])
        return late.total

    def least_waiting(self, loads: "_Loads") -> float:
        """Cycles that the compute unit waits in any order: before it goes on, all that is wanted by then has come."""
        if not len(loads.wanted):
            return 0.0
        order = np.argsort(loads.wanted, kind="stable")
        come = np.cumsum(loads.beats[order]) + self.latency
        return max(0.0, float(np.max(come - self.begin[loads.wanted[order]])))

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
                heappush(free, (self._released(part.free), part.at, part.first, part))
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
            if last is not None and (last.at, last.first + last.size) == (part.at, part.first):
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
    begin, count = part.first, part.size
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
