"""First-use analysis: which instruction is the first to read each vector after its LOAD."""

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.scheduler.layout.vector_type import depth_of
from lathe.scheduler.schedule_ir.memories import OPERANDS
from lathe.scheduler.stream.memory_effects import Cells


class FirstReads:
    """Finds the first read of each vector loaded to inp and wgt; loaded vectors are numbered in stream order."""

    def __init__(self, config: HardwareConfig) -> None:
        sizes = {memory: depth_of(config, memory) for memory in OPERANDS}
        self.slots = {memory: np.zeros(size, np.int64) for memory, size in sizes.items()}
        self.unread = {memory: np.zeros(size, np.bool_) for memory, size in sizes.items()}
        self.count = 0
        self.seen: list[tuple[NDArray[np.int64], int]] = []

    def loaded(self, memory: str, cells: slice) -> int:
        """Record a LOAD of these addresses; returns the number of its first vector."""
        first, count = self.count, cells.stop - cells.start
        self.slots[memory][cells] = np.arange(first, first + count)
        self.unread[memory][cells] = True
        self.count += count
        return first

    def read(self, memory: str, cells: Cells, time: int) -> None:
        """Record a read of these addresses at a time, which must not decrease from call to call."""
        if memory not in self.slots:
            return
        first = self.unread[memory][cells]
        if first.any():
            self.seen.append((self.slots[memory][cells][first], time))
            self.unread[memory][cells] = False

    def times(self, never: int) -> NDArray[np.int64]:
        """By number of the loaded vector, the time of its first read; ``never`` if there is none."""
        first = np.full(self.count, never, np.int64)
        for slots, time in self.seen:
            first[slots] = time
        return first
