"""How many vectors of each scratchpad are live over the cycles of a launch."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lathe.isa import MemoryType, Program
from lathe.isa.instructions import is_transfer
from lathe.isa.program import UOPS
from lathe.isa.table import MEMORIES
from lathe.reports.occupancy import Occupancy
from lathe.scheduler.stream.memory_effects import Cells, EffectsTracker

Ints = NDArray[np.int64]
NEVER = -1


class _LiveRanges:
    """The live ranges of one scratchpad's vectors: from each write to the last read of its value."""

    def __init__(self, depth: int) -> None:
        self.written = np.full(depth, NEVER, np.int64)
        self.read = np.full(depth, NEVER, np.int64)
        self.begins: list[Ints] = []
        self.ends: list[Ints] = []

    def reads(self, cells: Cells, end: int) -> None:
        self.read[cells] = np.maximum(self.read[cells], end)

    def writes(self, cells: Cells, start: int) -> None:
        self._close(cells)
        self.written[cells], self.read[cells] = start, NEVER

    def _close(self, cells: Cells) -> None:
        written, read = self.written[cells], self.read[cells]
        was_read = (written != NEVER) & (read != NEVER)
        self.begins.append(written[was_read])
        self.ends.append(read[was_read])

    def curve(self) -> tuple[Ints, Ints]:
        """Cycles in which the number of live vectors changes, ascending, and the number from each of them on."""
        self._close(slice(0, len(self.written)))
        begins, ends = np.concatenate(self.begins), np.concatenate(self.ends)
        times = np.concatenate((begins, ends + 1))
        changes = np.concatenate((np.ones(len(begins), np.int64), np.full(len(ends), -1)))
        cycles, index = np.unique(times, return_inverse=True)
        sums = np.bincount(index, changes, len(cycles)).astype(np.int64)
        nonzero = sums != 0
        return cycles[nonzero], np.cumsum(sums[nonzero])


def memory_use(program: Program, occupancy: Occupancy) -> dict[str, tuple[Ints, Ints]]:
    """By scratchpad, (cycles, live vectors from each of them on): a vector is live from a write to its last read.

    An instruction that accumulates does not end a live range. Excludes micro-ops and scratchpads that the program does
    not access.
    """
    config = program.config
    segment = next((each for each in program.segments if each.name == UOPS), None)
    words = np.zeros(0, np.uint32) if segment is None else program.images[UOPS].view("<u4")
    base = 0 if segment is None else segment.address // config.uop_element_bytes
    footprints = EffectsTracker(config, words, config.out_element_bytes, (0, 0))
    found: dict[str, _LiveRanges] = {}
    depths: Mapping[str, int] = {memory.scratchpad: memory.depth(config) for memory in MEMORIES.values()}
    starts, ends = occupancy.begin.tolist(), occupancy.end.tolist()
    for instruction, start, end in zip(program.instructions, starts, ends, strict=True):
        if is_transfer(instruction) and instruction.memory_type == MemoryType.UOP:
            first, size = instruction.dram_base - base, instruction.y_size * instruction.x_size
            if first >= 0:
                footprints.hold(instruction.sram_base, words[first : first + size])
            continue
        footprint = footprints.of(instruction)
        for name, cells in footprint.reads:
            if name in depths:
                found.setdefault(name, _LiveRanges(depths[name])).reads(cells, end)
        read = dict(footprint.reads)
        for name, cells in footprint.writes:
            if name in depths and not (name in read and _same(read[name], cells)):
                found.setdefault(name, _LiveRanges(depths[name])).writes(cells, start)
    return {name: lifetimes.curve() for name, lifetimes in found.items()}


def _same(left: Cells, right: Cells) -> bool:
    if isinstance(left, slice) or isinstance(right, slice):
        return isinstance(left, slice) and isinstance(right, slice) and left == right
    return np.array_equal(left, right)
