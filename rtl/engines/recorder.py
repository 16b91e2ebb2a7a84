"""Records the trace and the counts of a launch from the signals of the trace port."""

from collections import Counter

from lathe.isa.table import MemoryType
from lathe.rtl.engines.launch import Trace
from lathe.rtl.trace_opcodes import OPERATIONS


class _Track:
    """One unit: the instructions dispatched to it, how many have started, ended and retired, and its current stall."""

    def __init__(self) -> None:
        self.queue: list[int] = []
        self.started = self.ended = self.retired = 0
        self.waiting = self.latest = 0


class Recorder:
    """Takes the values of TracePorts.signals, cycle by cycle."""

    def __init__(self, count: int) -> None:
        self.trace = Trace.blank(count)
        self.operations: Counter[str] = Counter()
        self.bytes_read: Counter[str] = Counter()
        self.bytes_written = 0
        self.dispatched = 0
        self.load, self.compute, self.store = self.tracks = (_Track(), _Track(), _Track())
        self.waiting = self.latest = 0  # of fetch

    def cycle(self, t: int, values: tuple[int, ...]) -> None:
        """Record one cycle of the launch."""
        # Of each unit: start, end, busy, stall, cause, wait, retire.
        _, _, _, ls, le, _, lh, lc, lw, lr, cs, ce, _, ch, cc, cw, _, ss, se, _, sh, sc, sw, _ = values[:24]
        dispatch, _, _, fetch_stalls, cause, _, _, unit, operation, *moved = values[24:]
        load, compute, store = self.tracks
        if lw:
            self.trace.waited[load.queue[load.retired]] += 1
        if lr:
            load.retired += 1
        if cw:
            self.trace.waited[compute.queue[compute.started - 1]] += 1
        if sw:
            self.trace.waited[store.queue[store.started - 1]] += 1
        if lh:
            load.waiting += 1
            load.latest = lc
        if ch:
            compute.waiting += 1
            compute.latest = cc
        if sh:
            store.waiting += 1
            store.latest = sc
        if ls or le:
            self._bounds(t, load, ls, le)
        if cs or ce:
            self._bounds(t, compute, cs, ce)
        if ss or se:
            self._bounds(t, store, ss, se)
        if fetch_stalls and t > 0:  # cycle 0 belongs to no instruction
            self.waiting += 1
            self.latest = cause
        if dispatch:
            self._dispatch(t, unit)
        if operation:
            self.operations[OPERATIONS[operation]] += 1
        load_bytes, load_memory, compute_bytes, compute_memory, store_bytes = moved
        if load_bytes:
            self.bytes_read[MemoryType(load_memory).name.lower()] += load_bytes
        if compute_bytes:
            self.bytes_read[MemoryType(compute_memory).name.lower()] += compute_bytes
        self.bytes_written += store_bytes

    def _bounds(self, t: int, track: _Track, start: int, end: int) -> None:
        """Record that an instruction of a unit starts, that one ends, or both."""
        trace = self.trace
        if start:
            index = track.queue[track.started]
            track.started += 1
            trace.start[index], trace.waited[index] = t, 0
            trace.stalled[index], trace.cause[index] = track.waiting, track.latest
            track.waiting = track.latest = 0
        if end:
            trace.end[track.queue[track.ended]] = t
            track.ended += 1

    def _dispatch(self, t: int, unit: int) -> None:
        index, trace = self.dispatched, self.trace
        self.dispatched += 1
        self.tracks[unit].queue.append(index)
        trace.unit[index], trace.dispatch[index] = unit, t
        trace.dispatch_stalled[index] = self.waiting
        trace.dispatch_cause[index] = self.latest
        self.waiting = self.latest = 0
