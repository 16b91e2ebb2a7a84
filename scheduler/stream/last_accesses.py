"""Which instruction touched a cell last: what an instruction has to wait for.

Each memory is read and written by few units, and the units of an instruction's own keep its order. So there is a table
only for a unit that has read a memory, or written it, and it is looked at only by others, and only where the unit has
done something there that is not known to be done.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lathe.isa import Unit
from lathe.scheduler.layout.vector_type import depth_of
from lathe.scheduler.schedule_ir.memories import DRAM, SCRATCHPADS
from lathe.scheduler.stream.memory_effects import Cells, Footprints, MemoryEffects

NONE = -1
NOTHING = (NONE,) * len(Unit)


class _Numbers:
    """By unit, the numbers of the instructions that did something to the cells of a memory last, and the latest one."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.by_unit: dict[Unit, NDArray[np.int64]] = {}
        self.latest = [NONE] * len(Unit)

    def note(self, unit: Unit, cells: Cells, number: int) -> None:
        """An instruction does it now."""
        if unit not in self.by_unit:
            self.by_unit[unit] = np.full(self.size, NONE, np.int64)
        self.by_unit[unit][cells] = number
        self.latest[unit] = number

    def take(self, needed: list[int], cells: Cells, unit: Unit, known: Sequence[int]) -> None:
        """Let the last instructions of other units than one be among the needed, where they are not known."""
        for other, numbers in self.by_unit.items():
            if other is not unit and self.latest[other] > max(known[other], needed[other]):
                touched = numbers[cells]
                if touched.size:
                    needed[other] = max(needed[other], int(touched.max()))


class LastUses:
    """Per unit and cell of every memory, the numbers of the instructions that read it last, and that wrote it."""

    def __init__(self, footprints: Footprints) -> None:
        first, end = footprints.tracked
        sizes = {scope: depth_of(footprints.config, scope) for scope in SCRATCHPADS}
        sizes[DRAM] = (end - first) // footprints.grain + 1
        self.readers = {memory: _Numbers(size) for memory, size in sizes.items()}
        self.writers = {memory: _Numbers(size) for memory, size in sizes.items()}

    def needed(self, footprint: MemoryEffects, unit: Unit, known: Sequence[int] = NOTHING) -> list[int]:
        """Per other unit, the last instruction that one with this footprint must wait for.

        By unit, all up to the ``known`` ones are done: these need not be told.
        """
        needed = [NONE] * len(Unit)
        for memory, cells in footprint.kept:
            self.writers[memory].take(needed, cells, unit, known)
        for memory, cells in footprint.writes:
            self.writers[memory].take(needed, cells, unit, known)
            self.readers[memory].take(needed, cells, unit, known)
        return needed

    def note(self, footprint: MemoryEffects, unit: Unit, number: int) -> None:
        """Instruction ``number`` touches these cells now."""
        for memory, cells in footprint.kept:
            self.readers[memory].note(unit, cells, number)
        for memory, cells in footprint.writes:
            self.writers[memory].note(unit, cells, number)
