"""Last accesses per address and unit, which give the dependences of the next instruction.

Only few units access each memory, and each unit executes in order. So a unit has a table for a memory only once it has
accessed it; only instructions of other units look it up, and only if its latest access is not known to be done.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lathe.isa import Unit
from lathe.scheduler.layout.vector_type import depth_of
from lathe.scheduler.schedule_ir.memories import DRAM, SCRATCHPADS
from lathe.scheduler.stream.memory_effects import Cells, EffectsTracker, MemoryEffects

NONE = -1
NOTHING = (NONE,) * len(Unit)


class _Numbers:
    """Per unit, the last instruction that read (or wrote) each address of a memory, and the latest of these."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.by_unit: dict[Unit, NDArray[np.int64]] = {}
        self.latest = [NONE] * len(Unit)

    def note(self, unit: Unit, cells: Cells, number: int) -> None:
        """Record that an instruction of a unit accesses these addresses."""
        if unit not in self.by_unit:
            self.by_unit[unit] = np.full(self.size, NONE, np.int64)
        self.by_unit[unit][cells] = number
        self.latest[unit] = number

    def take(self, needed: list[int], cells: Cells, unit: Unit, known: Sequence[int]) -> None:
        """Raise ``needed`` to the last accesses of units other than ``unit``, unless ``known`` covers them."""
        for other, numbers in self.by_unit.items():
            if other is not unit and self.latest[other] > max(known[other], needed[other]):
                touched = numbers[cells]
                if touched.size:
                    needed[other] = max(needed[other], int(touched.max()))


class LastUses:
    """Per unit and address of every memory, the numbers of the last instruction that read it and that wrote it."""

    def __init__(self, footprints: EffectsTracker) -> None:
        first, end = footprints.tracked
        sizes = {scope: depth_of(footprints.config, scope) for scope in SCRATCHPADS}
        sizes[DRAM] = (end - first) // footprints.granule + 1
        self.readers = {memory: _Numbers(size) for memory, size in sizes.items()}
        self.writers = {memory: _Numbers(size) for memory, size in sizes.items()}

    def needed(self, footprint: MemoryEffects, unit: Unit, known: Sequence[int] = NOTHING) -> list[int]:
        """Per other unit, the last instruction that one with this footprint depends on, after ``known`` ones."""
        needed = [NONE] * len(Unit)
        for memory, cells in footprint.reads_only:
            self.writers[memory].take(needed, cells, unit, known)
        for memory, cells in footprint.writes:
            self.writers[memory].take(needed, cells, unit, known)
            self.readers[memory].take(needed, cells, unit, known)
        return needed

    def note(self, footprint: MemoryEffects, unit: Unit, number: int) -> None:
        """Record the accesses of instruction ``number``."""
        for memory, cells in footprint.reads_only:
            self.readers[memory].note(unit, cells, number)
        for memory, cells in footprint.writes:
            self.writers[memory].note(unit, cells, number)
