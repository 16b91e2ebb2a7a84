"""Trace and counts of a launch, from the signals of the trace port in each cycle."""

from collections import Counter

from lathe.isa.table import AluOp, MemoryType
from lathe.rtl.engines.launch import Trace
from lathe.rtl.ports import TracePorts
from lathe.rtl.stall import UNIT_NAMES

UNITS = UNIT_NAMES[:3]


class Recorder:
    """Takes the trace port's signals, in the order of TracePorts.signals packed into one integer, cycle by cycle."""

    def __init__(self, ports: TracePorts, count: int) -> None:
        self.trace = Trace.blank(count)
        self.operations: Counter[str] = Counter()
        self.bytes_read: Counter[str] = Counter()
        self.bytes_written = 0
        self.dispatched = 0
        self.queues: dict[str, list[int]] = {unit: [] for unit in UNITS}
        self.started = dict.fromkeys(UNITS, 0)
        self.ended = dict.fromkeys(UNITS, 0)
        self.retired = dict.fromkeys(UNITS, 0)
        self.waiting = dict.fromkeys(UNIT_NAMES, 0)
        self.latest = dict.fromkeys(UNIT_NAMES, 0)
        self.fields: dict[str, tuple[int, int]] = {}
        position = 0
        for signal in ports.signals:
            self.fields[signal.name] = (position, (1 << len(signal)) - 1)
            position += len(signal)
        self.access = {unit: [self.fields[f"trace_{unit}_{field}"][0] for field in ports.fields] for unit in UNIT_NAMES}

    def field(self, packed: int, name: str) -> int:
        """One signal."""
        position, mask = self.fields[name]
        return packed >> position & mask

    def cycle(self, t: int, packed: int) -> None:
        """One cycle of the launch."""
        trace = self.trace
        for unit in UNITS:
            start, end, _, stall, cause, wait, retire = self.access[unit]
            queue = self.queues[unit]
            if packed >> wait & 1:
                index = queue[self.retired[unit] if unit == "load" else self.started[unit] - 1]
                trace.waited[index] += 1
            if packed >> retire & 1:
                self.retired[unit] += 1
            if packed >> stall & 1:
                self.waiting[unit] += 1
                self.latest[unit] = packed >> cause & 15
            if packed >> start & 1:
                index = queue[self.started[unit]]
                self.started[unit] += 1
                trace.start[index], trace.waited[index] = t, 0
                trace.stalled[index], trace.cause[index] = self.waiting[unit], self.latest[unit]
                self.waiting[unit] = self.latest[unit] = 0
            if packed >> end & 1:
                trace.end[queue[self.ended[unit]]] = t
                self.ended[unit] += 1
        self._fetch(t, packed)
        self._moved(packed)

    def _fetch(self, t: int, packed: int) -> None:
        dispatch, _, _, stall, cause, _, _ = self.access["fetch"]
        if packed >> stall & 1 and t > 0:  # cycle 0 belongs to no instruction
            self.waiting["fetch"] += 1
            self.latest["fetch"] = packed >> cause & 15
        if packed >> dispatch & 1:
            index, trace = self.dispatched, self.trace
            self.dispatched += 1
            unit = self.field(packed, "trace_unit")
            self.queues[UNITS[unit]].append(index)
            trace.unit[index], trace.dispatch[index] = unit, t
            trace.dispatch_stalled[index] = self.waiting["fetch"]
            trace.dispatch_cause[index] = self.latest["fetch"]
            self.waiting["fetch"] = self.latest["fetch"] = 0

    def _moved(self, packed: int) -> None:
        operation = self.field(packed, "trace_operation")
        if operation & 2:
            self.operations["reset" if operation & 4 else "gemm"] += 1
        elif operation:
            self.operations[AluOp(operation >> 3).name.lower()] += 1
        for unit in ("load", "compute"):
            size = self.field(packed, f"trace_{unit}_bytes")
            if size:
                self.bytes_read[MemoryType(self.field(packed, f"trace_{unit}_memory")).name.lower()] += size
        self.bytes_written += self.field(packed, "trace_store_bytes")
