"""Reuse of DRAM: temporaries whose live ranges do not overlap may share addresses.

A temporary is live from the first instruction that accesses it to the last. The largest are allocated first, each at
the lowest address that is free during its live range. A temporary shares memory only if each byte of it is stored
before it is loaded: bytes that are never stored are zeros, and must stay so. The emitted order is preserved by tokens,
which follow from the cells of DRAM that an instruction reads or overwrites.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lathe.isa import Load, Segment, Store
from lathe.isa.table import MEMORIES
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.sync import Entry, Marker, Origin
from lathe.scheduler.stream.memory_effects import EffectsTracker

Entries = Sequence[tuple[Entry, Origin]]


@dataclass(eq=False)
class _LiveRange:
    """A segment's first and last use and its users, by instruction number; its stored cells; whether it may share."""

    segment: Segment
    stored: NDArray[np.bool_]
    shares: bool
    first: int = -1
    last: int = -1
    users: list[int] = field(default_factory=list)

    def overlaps(self, other: "_LiveRange") -> bool:
        """Whether the two segments must not share memory."""
        if not (self.shares and other.shares):
            return True
        return self.first <= other.last and other.first <= self.last


def reuse_dram(
    entries: Entries, segments: Sequence[Segment], footprints: EffectsTracker, align: int
) -> tuple[list[tuple[Entry, Origin]], list[Segment]]:
    """The stream and the segments with temporaries at shared addresses, all multiples of ``align`` bytes.

    A program with manual synchronisation is left as it is, and so is one that would take no less memory.
    """
    stream, all_segments = list(entries), list(segments)
    written = [each for each in segments if each.role in ("output", "temporary") and each.nbytes]
    temporaries = sum(each.role == "temporary" for each in written)
    if temporaries < 2 or any(isinstance(each, Marker) for each, _ in entries):
        return stream, all_segments
    ranges = _live_ranges(entries, written, footprints)
    moved = _allocated(ranges, min(each.address for each in written), align)
    if max(each.end for each in moved.values()) >= max(each.end for each in written):
        return stream, all_segments
    for live in ranges:
        offset = moved[live.segment.name].address - live.segment.address
        for number in live.users if offset else ():
            instruction, origin = stream[number]
            assert isinstance(instruction, Load | Store), f"{instruction} does not move rows"
            unit = _vector_bytes(instruction, footprints)
            assert offset % unit == 0, f"segment {live.segment.name} is moved by {offset} bytes"
            stream[number] = replace(instruction, dram_base=instruction.dram_base + offset // unit), origin
    return stream, [moved.get(each.name, each) for each in all_segments]


def _live_ranges(entries: Entries, written: Sequence[Segment], footprints: EffectsTracker) -> list[_LiveRange]:
    grain, base = footprints.granule, footprints.tracked[0] // footprints.granule
    ranges = [
        _LiveRange(each, np.zeros(-(-each.nbytes // grain), np.bool_), each.role == "temporary")
        for each in sorted(written, key=lambda each: each.address)
    ]
    starts = [live.segment.address // grain - base for live in ranges]
    for number, cells, stores in _accesses(entries, footprints):
        index = bisect_right(starts, int(cells[0])) - 1
        live = ranges[index]
        own = cells - starts[index]
        assert own[-1] < len(live.stored), f"an instruction goes beyond segment {live.segment.name}"
        live.users.append(number)
        live.first = number if live.first < 0 else live.first
        live.last = number
        if stores:
            live.stored[own] = True
        elif not live.stored[own].all():
            live.shares = False
    return ranges


def _accesses(entries: Entries, footprints: EffectsTracker) -> Iterator[tuple[int, NDArray[np.int64], bool]]:
    """Instructions that access segments the program stores: number, cells of DRAM, and whether these are stored."""
    for number, (instruction, _) in enumerate(entries):
        if not isinstance(instruction, Load | Store):
            continue
        effects = footprints.of(instruction)
        for accesses, stores in ((effects.reads, False), (effects.writes, True)):
            for memory, cells in accesses:
                if memory == DRAM:
                    whole = np.arange(cells.start, cells.stop) if isinstance(cells, slice) else cells
                    if len(whole):
                        yield number, whole, stores


def _allocated(ranges: Sequence[_LiveRange], base: int, align: int) -> dict[str, Segment]:
    """The segments by name at their new addresses; those that do not share are allocated first, in their order."""
    unshared = [live for live in ranges if not live.shares]
    shared = sorted((live for live in ranges if live.shares), key=lambda live: (-live.segment.nbytes, live.first))
    allocated: list[tuple[_LiveRange, Segment]] = []
    for live in [*unshared, *shared]:
        occupied = sorted((each.address, each.end) for other, each in allocated if live.overlaps(other))
        address = -(-base // align) * align
        for low, end in occupied:
            if address + live.segment.nbytes <= low:
                break
            address = max(address, -(-end // align) * align)
        allocated.append((live, replace(live.segment, address=address)))
    return {each.name: each for _, each in allocated}


def _vector_bytes(instruction: Load | Store, footprints: EffectsTracker) -> int:
    if isinstance(instruction, Store):
        return footprints.config.out_element_bytes
    return MEMORIES[instruction.memory_type].element_bytes(footprints.config)
