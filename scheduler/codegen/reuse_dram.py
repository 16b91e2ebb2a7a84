"""Temporaries in DRAM where others were that nobody reads any longer, in the order of the stream.

A temporary lives from the first instruction that touches it to the last one. The largest get their places first, each
the lowest that is free as long as it lives. Only such share a place of which all that is loaded has been stored before:
bytes that nobody stores are zeros, and must stay so. Order is kept by what has been emitted and by tokens, which know
the cells of DRAM that an instruction reads or overwrites.
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
from lathe.scheduler.stream.memory_effects import Footprints

Entries = Sequence[tuple[Entry, Origin]]


@dataclass(eq=False)
class _Life:
    """When a segment is used, by numbers of instructions; which of its cells have been stored; whether it shares.

    Filled while the stream is gone through, in this file.
    """

    segment: Segment
    stored: NDArray[np.bool_]
    shares: bool
    first: int = -1
    last: int = -1
    users: list[int] = field(default_factory=list)

    def meets(self, other: "_Life") -> bool:
        """Whether both are wanted at a time."""
        if not (self.shares and other.shares):
            return True
        return self.first <= other.last and other.first <= self.last


def with_places_shared(
    entries: Entries, segments: Sequence[Segment], footprints: Footprints, align: int
) -> tuple[list[tuple[Entry, Origin]], list[Segment]]:
    """The stream and the segments with temporaries at places that they share, ``align`` bytes being a multiple of all.

    What orders steps by hand is left as it is, and so is what would take no less memory.
    """
    stream, kept = list(entries), list(segments)
    written = [each for each in segments if each.role in ("output", "temporary") and each.nbytes]
    temporaries = sum(each.role == "temporary" for each in written)
    if temporaries < 2 or any(isinstance(each, Marker) for each, _ in entries):
        return stream, kept
    lives = _lives(entries, written, footprints)
    moved = _placed(lives, min(each.address for each in written), align)
    if max(each.end for each in moved.values()) >= max(each.end for each in written):
        return stream, kept
    for life in lives:
        away = moved[life.segment.name].address - life.segment.address
        for number in life.users if away else ():
            instruction, origin = stream[number]
            assert isinstance(instruction, Load | Store), f"{instruction} does not move rows"
            element = _element_bytes(instruction, footprints)
            assert away % element == 0, f"segment {life.segment.name} is moved by {away} bytes"
            stream[number] = replace(instruction, dram_base=instruction.dram_base + away // element), origin
    return stream, [moved.get(each.name, each) for each in kept]


def _lives(entries: Entries, written: Sequence[Segment], footprints: Footprints) -> list[_Life]:
    grain, base = footprints.grain, footprints.tracked[0] // footprints.grain
    lives = [
        _Life(each, np.zeros(-(-each.nbytes // grain), np.bool_), each.role == "temporary")
        for each in sorted(written, key=lambda each: each.address)
    ]
    starts = [life.segment.address // grain - base for life in lives]
    for number, cells, stores in _touched(entries, footprints):
        at = bisect_right(starts, int(cells[0])) - 1
        life = lives[at]
        own = cells - starts[at]
        assert own[-1] < len(life.stored), f"an instruction goes beyond segment {life.segment.name}"
        life.users.append(number)
        life.first = number if life.first < 0 else life.first
        life.last = number
        if stores:
            life.stored[own] = True
        elif not life.stored[own].all():
            life.shares = False
    return lives


def _touched(entries: Entries, footprints: Footprints) -> Iterator[tuple[int, NDArray[np.int64], bool]]:
    """Instructions that touch what the program stores: number, cells of DRAM, and whether they are stored."""
    for number, (instruction, _) in enumerate(entries):
        if not isinstance(instruction, Load | Store):
            continue
        found = footprints.of(instruction)
        for touched, stores in ((found.reads, False), (found.writes, True)):
            for memory, cells in touched:
                if memory == DRAM:
                    whole = np.arange(cells.start, cells.stop) if isinstance(cells, slice) else cells
                    if len(whole):
                        yield number, whole, stores


def _placed(lives: Sequence[_Life], base: int, align: int) -> dict[str, Segment]:
    """The segments by their names, the lasting ones first, in their order."""
    lasting = [life for life in lives if not life.shares]
    passing = sorted((life for life in lives if life.shares), key=lambda life: (-life.segment.nbytes, life.first))
    made: list[tuple[_Life, Segment]] = []
    for life in [*lasting, *passing]:
        around = sorted((each.address, each.end) for other, each in made if life.meets(other))
        address = -(-base // align) * align
        for low, end in around:
            if address + life.segment.nbytes <= low:
                break
            address = max(address, -(-end // align) * align)
        made.append((life, replace(life.segment, address=address)))
    return {each.name: each for _, each in made}


def _element_bytes(instruction: Load | Store, footprints: Footprints) -> int:
    if isinstance(instruction, Store):
        return footprints.config.out_element_bytes
    return MEMORIES[instruction.memory_type].element_bytes(footprints.config)
