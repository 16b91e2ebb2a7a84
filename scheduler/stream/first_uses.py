"""Which instruction reads an element first after a LOAD has brought it: most that read it are not the first."""

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.scheduler.layout.vector_type import depth_of
from lathe.scheduler.schedule_ir.memories import OPERANDS
from lathe.scheduler.stream.memory_effects import Cells


class FirstReads:
    """Follows the elements of the memories that products read, which are numbered as they are loaded."""

    def __init__(self, config: HardwareConfig) -> None:
        sizes = {memory: depth_of(config, memory) for memory in OPERANDS}
        self.slots = {memory: np.zeros(size, np.int64) for memory, size in sizes.items()}
        self.waiting = {memory: np.zeros(size, np.bool_) for memory, size in sizes.items()}
        self.count = 0
        self.seen: list[tuple[NDArray[np.int64], int]] = []

    def loaded(self, memory: str, cells: slice) -> int:
        """Cells are loaded now; the number of the first."""
        first, count = self.count, cells.stop - cells.start
        self.slots[memory][cells] = np.arange(first, first + count)
        self.waiting[memory][cells] = True
        self.count += count
        return first

    def read(self, memory: str, cells: Cells, place: int) -> None:
        """Cells are read at a place of the stream, or at a time; both grow."""
        if memory not in self.slots:
            return
        first = self.waiting[memory][cells]
        if first.any():
            self.seen.append((self.slots[memory][cells][first], place))
            self.waiting[memory][cells] = False

    def found(self, end: int) -> NDArray[np.int64]:
        """By the numbers of loaded elements the place where they are read first; ``end`` for none."""
        first = np.full(self.count, end, np.int64)
        for slots, place in self.seen:
            first[slots] = place
        return first
