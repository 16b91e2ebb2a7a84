"""List scheduling of LOADs: of those whose addresses are free, the one whose data are used first comes first.

The load unit executes in order. A LOAD whose addresses are still in use blocks all after it, even those that could
start: weights of the next tile wait after inputs of this one, each of which waits for earlier GEMMs. Here every LOAD
has a release time, when its addresses are free and its data stored in DRAM, and a due time, when an instruction reads
its data, both in cycles of a compute unit that never stalls. Of the released LOADs the one with the earliest due time
is next (Jackson's rule: "Scheduling a production line to minimize maximum tardiness", 1955). A LOAD is split where
another comes between its slices.
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
from lathe.isa.instructions import is_transfer, runs_micro_ops
from lathe.isa.operands import usage_of
from lathe.scheduler.layout.vector_type import depth_of
from lathe.scheduler.schedule_ir.memories import DRAM, OPERANDS
from lathe.scheduler.schedule_ir.sync import Entry, Marker, Origin
from lathe.scheduler.stream.last_accesses import NONE
from lathe.scheduler.stream.memory_effects import Cells, EffectsTracker, beats_of, vectors_of

Entries = list[tuple[Entry, Origin]]
_Number = TypeVar("_Number", np.int64, np.float64)
MIN_BEATS = 256
"""Least number of beats of a slice of a LOAD; another LOAD may come between two slices."""
MAX_SLICES = 64
"""Greatest number of slices of a LOAD."""
OVERHEAD = 12
"""Overhead of an instruction, in cycles."""
MIN_SAVING = 64
"""Cycles that a new order must save at least."""
ROUNDING = 1
"""Greatest rounding error of a sum of beats, in cycles, which depends on the order of the addends."""


class _Slice(NamedTuple):
    """A slice of the LOAD at position ``at`` of the stream: ``size`` vectors from its vector ``first`` on.

    ``free``: the position of the last instruction that must be done before, or NONE; ``due``: of the first that
    reads its vectors, or the end; ``after``: of LOADs whose vectors it overwrites unread. ``beats``: on the bus.
    """

    at: int
    first: int
    size: int
    beats: float
    free: int
    due: int
    after: tuple[int, ...]

    def merged(self, other: "_Slice") -> "_Slice":
        """This slice and the next one of the same LOAD as one."""
        free, due = max(self.free, other.free), min(self.due, other.due)
        return _Slice(self.at, self.first, self.size + other.size, self.beats + other.beats, free, due, self.after)


def schedule_loads(entries: Entries, footprints: EffectsTracker) -> Entries:
    """The stream with LOADs of the load unit reordered, if that saves stalls; unchanged with manual synchronisation."""
    if any(isinstance(each, Marker) for each, _ in entries):
        return entries
    loads = _Loads(entries, footprints)
    times = _Times(entries, footprints.config)
    waiting = times.waiting(loads.whole())
    if times.least_waiting(loads) + MIN_SAVING > waiting + ROUNDING:
        return entries
    order = times.by_due_time(loads.slices())
    if times.waiting((part.free, part.due, part.beats) for part in order) + MIN_SAVING > waiting:
        return entries
    return _placed(entries, order)


class _Slicing(NamedTuple):
    """How a LOAD is split into slices: ``edges`` are the first vectors of all slices (``firsts``), and the end.

    ``beats``: per slice, on the bus; ``total``: their sum; ``slice_of``: per vector, the slice that it is in.
    """

    edges: list[int]
    firsts: NDArray[np.int64]
    beats: NDArray[np.float64]
    total: float
    slice_of: NDArray[np.int64]


class _Loads:
    """The LOADs of the load unit by position, and their slices, numbered in stream order, with release and due time.

    ``free`` and ``due``: per slice, and ``after``: per LOAD, as in ``_Slice``; ``begins``: each LOAD's first slice.
    """

    def __init__(self, entries: Entries, footprints: EffectsTracker) -> None:
        self._slicings = _slicings(entries, footprints.config)
        ends = accumulate(len(cut.beats) for cut in self._slicings.values())
        self.begins = {n: end - len(cut.beats) for (n, cut), end in zip(self._slicings.items(), ends, strict=True)}
        self.beats = _concatenated([cut.beats for cut in self._slicings.values()], np.float64)
        self.due = np.full(len(self.beats), len(entries), np.int64)
        self.after: dict[int, tuple[int, ...]] = {}
        depths = {memory: depth_of(footprints.config, memory) for memory in OPERANDS}
        # Per address: the LOAD and the slice that wrote it last, and the last instruction that read it.
        self._loaded = {memory: np.full(depth, NONE, np.int64) for memory, depth in depths.items()}
        self._slice = {memory: np.full(depth, NONE, np.int64) for memory, depth in depths.items()}
        self._read = {memory: np.full(depth, NONE, np.int64) for memory, depth in depths.items()}
        self.free = self._releases(entries, footprints)

    def _releases(self, entries: Entries, footprints: EffectsTracker) -> NDArray[np.int64]:
        """Walk over the whole stream; returns ``free`` of each slice."""
        (first, end), grain = footprints.tracked, footprints.granule
        last_store = np.full((end - first) // grain + 1, NONE, np.int64)
        stores: dict[int, Cells] = {}
        loads: dict[int, Cells] = {}  # LOADs of data that the program stores
        free: dict[int, NDArray[np.int64]] = {}
        for place, (each, _) in enumerate(entries):
            assert not isinstance(each, Marker), f"marker {each} in a stream without manual synchronisation"
            footprint = footprints.of(each)
            if place in self._slicings:
                before = NONE
                for memory, cells in footprint.reads:
                    assert memory == DRAM, f"a LOAD must read DRAM, not {memory}"
                    loads[place] = cells
                    before = int(last_store[cells].max(initial=NONE))
                ((memory, cells),) = footprint.writes
                free[place] = self._load(memory, cells, place, before, free)
                continue
            for memory, cells in footprint.reads:
                if memory in self._read:
                    self._used_at(memory, cells, place)
                    self._read[memory][cells] = place
            for memory, cells in footprint.writes:
                if memory == DRAM:
                    stores[place] = cells
                    last_store[cells] = place
        if stores:
            ends = _overwritten(loads, stores, len(last_store), len(entries))
            for place, overwritten in ends.items():
                begin = self.begins[place]
                own = self.due[begin : begin + len(self._slicings[place].beats)]
                np.minimum(own, overwritten, out=own)
        return _concatenated(list(free.values()), np.int64)

    def _load(
        self, memory: str, cells: Cells, place: int, before: int, free: Mapping[int, NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        """``free`` of each slice of the next LOAD, given that of earlier LOADs and the last STORE to its data."""
        cut, loaded, read = self._slicings[place], self._loaded[memory], self._read[memory][cells]
        unread = loaded[cells] > read
        if unread.any():
            after = tuple(np.unique(loaded[cells][unread]).tolist())
            before = max(before, *(int(free[other].max()) for other in after))
            self.after[place] = after
            self._used_at(memory, cells, place)
        loaded[cells] = place
        self._slice[memory][cells] = cut.slice_of + self.begins[place]
        released: NDArray[np.int64] = np.maximum(np.maximum.reduceat(read, cut.firsts), before)
        return released

    def _used_at(self, memory: str, cells: Cells, place: int) -> None:
        """Record an access to cells: it is the due time of the slices that loaded them, if it is the first."""
        unread = self._loaded[memory][cells] > self._read[memory][cells]
        if unread.any():
            slices = self._slice[memory][cells][unread]
            self.due[slices] = np.minimum(self.due[slices], place)

    def slices(self) -> list[_Slice]:
        """All slices, in stream order."""
        free, due, beats = self.free.tolist(), self.due.tolist(), self.beats.tolist()
        slices = []
        for place, cut in self._slicings.items():
            after = self.after.get(place, ())
            for number, (a, b) in enumerate(pairwise(cut.edges), self.begins[place]):
                slices.append(_Slice(place, a, b - a, beats[number], free[number], due[number], after))
        return slices

    def whole(self) -> Iterator[tuple[int, int, float]]:
        """``free``, ``due`` and ``beats`` of each LOAD as one slice."""
        begins = list(self.begins.values())
        free = np.maximum.reduceat(self.free, begins).tolist() if begins else []
        due = np.minimum.reduceat(self.due, begins).tolist() if begins else []
        return zip(free, due, (cut.total for cut in self._slicings.values()), strict=True)


def _overwritten(loads: Mapping[int, Cells], stores: Mapping[int, Cells], size: int, end: int) -> dict[int, int]:
    """Per LOAD, by position, the position of the next STORE to data that it reads, or the end."""
    next_store = np.full(size, end, np.int64)
    overwritten: dict[int, int] = {}
    for place in sorted((*loads, *stores), reverse=True):
        if place in stores:
            next_store[stores[place]] = place
        else:
            overwritten[place] = int(next_store[loads[place]].min())
    return overwritten


def _concatenated(arrays: Sequence[NDArray[_Number]], kind: type[_Number]) -> NDArray[_Number]:
    return np.concatenate(arrays) if arrays else np.zeros(0, kind)


def _slicings(entries: Entries, config: HardwareConfig) -> dict[int, _Slicing]:
    """How each LOAD of the load unit is split, by position; LOADs of one shape are split alike."""
    known: dict[tuple[object, ...], _Slicing] = {}
    cuts: dict[int, _Slicing] = {}
    for place, (each, _) in enumerate(entries):
        if isinstance(each, Load) and each.x_size and unit_of(each) is Unit.LOAD:
            pads = (each.x_pad_0, each.x_pad_1, each.y_pad_0, each.y_pad_1)
            shape = (each.memory_type, each.y_size, each.x_size, each.x_stride == each.x_size, pads)
            if shape not in known:
                known[shape] = _slicing_of(each, config)
            cuts[place] = known[shape]
    return cuts


def _slicing_of(load: Load, config: HardwareConfig) -> _Slicing:
    edges = _edges(load, vectors_of(load), config)
    counts = np.diff(edges)
    beats = np.asarray(counts * (beats_of(load, config) / edges[-1]), np.float64)
    slice_of = np.repeat(np.arange(len(counts)), counts)
    return _Slicing(edges, np.asarray(edges[:-1]), beats, reduce(add, beats.tolist()), slice_of)


def _edges(load: Load, count: int, config: HardwareConfig) -> list[int]:
    """Where a LOAD of ``count`` vectors is split, with 0 and the end: between vectors, or rows if it is strided."""
    dense = load.y_size == 1 or load.x_stride == load.x_size
    if load.x_pad_0 or load.x_pad_1 or load.y_pad_0 or load.y_pad_1:
        return [0, count]
    unit = 1 if dense else load.x_size
    beats = beats_of(load, config) / (count // unit)
    step = unit * max(ceil(MIN_BEATS / beats), ceil(count / unit / MAX_SLICES))
    return [*range(0, count, step), count]


class _Times:
    """When instructions start and end, in cycles, if the compute unit never stalls."""

    def __init__(self, entries: Entries, config: HardwareConfig) -> None:
        self.latency = config.memory.latency + OVERHEAD
        self.begin, self.end = np.zeros(len(entries) + 1), np.zeros(len(entries) + 1)
        now = stored = 0.0
        for place, (each, _) in enumerate(entries):
            assert not isinstance(each, Marker), f"marker {each} in a stream without manual synchronisation"
            self.begin[place] = self.end[place] = now
            unit = unit_of(each)
            if unit is Unit.COMPUTE:
                now += OVERHEAD
                if runs_micro_ops(each):
                    now += each.iter_out * each.iter_in * (each.uop_end - each.uop_bgn) * usage_of(each).issue_cycles
                elif is_transfer(each) and each.x_size:
                    now += beats_of(each, config) + config.memory.latency
                self.end[place] = now
            elif unit is Unit.STORE and is_transfer(each):
                stored = max(stored, now) + beats_of(each, config) + self.latency
                self.end[place] = stored
        self.begin[-1] = self.end[-1] = now

    def _released(self, free: int) -> float:
        return float(self.end[free]) if free != NONE else 0.0

    def waiting(self, order: Iterable[tuple[int, int, float]]) -> float:
        """Cycles that the compute unit stalls for LOADs in this order: ``free``, ``due`` and ``beats`` of each."""
        late, now = _Delays(), 0.0
        for free, due, beats in order:
            now = max(now, self._released(free) + late.at(free)) + beats
            late.add(due, now + self.latency - self.begin[due])
        return late.total

    def least_waiting(self, loads: "_Loads") -> float:
        """Lower bound on stall cycles in any order: at each due time, the bus has carried all that is due by then."""
        if not len(loads.due):
            return 0.0
        order = np.argsort(loads.due, kind="stable")
        come = np.cumsum(loads.beats[order]) + self.latency
        return max(0.0, float(np.max(come - self.begin[loads.due[order]])))

    def by_due_time(self, slices: Sequence[_Slice]) -> list[_Slice]:
        """The slices by earliest due time among the released ones; adjacent slices of a LOAD merged."""
        blocked = sorted(slices, key=lambda part: (part.free, part.at, part.first), reverse=True)
        due = sorted((part.due for part in slices), reverse=True)
        taken: Counter[int] = Counter()
        left = Counter(part.at for part in slices)
        free: list[tuple[float, int, int, _Slice]] = []
        ready: list[tuple[int, int, int, _Slice]] = []
        late, now = _Delays(), 0.0
        order: list[_Slice] = []
        for _ in slices:
            while taken[due[-1]]:
                taken[due.pop()] -= 1
            # A slice whose addresses are in use by an instruction that reads another slice comes after that slice.
            while blocked and blocked[-1].free < due[-1] and not any(left[each] for each in blocked[-1].after):
                part = blocked.pop()
                heappush(free, (self._released(part.free), part.at, part.first, part))
            if not ready:
                now = max(now, free[0][0] + late.at(free[0][-1].free))
            while free and free[0][0] + late.at(free[0][-1].free) <= now:
                *_, part = heappop(free)
                heappush(ready, (part.due, part.at, part.first, part))
            *_, part = heappop(ready)
            taken[part.due] += 1
            left[part.at] -= 1
            now += part.beats
            late.add(part.due, now + self.latency - self.begin[part.due])
            last = order[-1] if order else None
            if last is not None and (last.at, last.first + last.size) == (part.at, part.first):
                order[-1] = last.merged(part)
            else:
                order.append(part)
        return order


class _Delays:
    """Delay of instructions by stalls, as a step function of the position: ``totals[n]`` from ``starts[n]`` on."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.totals: list[float] = []

    @property
    def total(self) -> float:
        """Delay at the end of the stream."""
        return self.totals[-1] if self.totals else 0.0

    def at(self, position: int) -> float:
        """Delay of the instruction at a position."""
        index = bisect_right(self.starts, position)
        return self.totals[index - 1] if index else 0.0

    def add(self, position: int, delay: float) -> None:
        """Delay the instruction at a position by at least ``delay`` in total, and all after it by the increase."""
        index = bisect_right(self.starts, position)
        more = delay - (self.totals[index - 1] if index else 0.0)
        if more > 0:
            self.totals[index:] = [total + more for total in self.totals[index:]]
            self.starts.insert(index, position)
            self.totals.insert(index, delay)


def _placed(entries: Entries, order: Sequence[_Slice]) -> Entries:
    """The stream with its LOADs in this order, each as early as its addresses are free."""
    moved = {part.at for part in order}
    stream: Entries = []
    ahead = iter(order)
    part = next(ahead, None)
    for place in range(len(entries) + 1):
        while part is not None and part.free < place:
            assert place <= part.due, f"LOAD {part.at} comes after an instruction that reads its data"
            load, origin = entries[part.at]
            assert isinstance(load, Load), f"{load} is no LOAD"
            stream.append((_sliced(load, part), origin))
            part = next(ahead, None)
        if place < len(entries) and place not in moved:
            stream.append(entries[place])
    assert part is None, "a LOAD has not been placed"
    return stream


def _sliced(load: Load, part: _Slice) -> Load:
    """The LOAD of a slice."""
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
