"""Which instruction touched a cell last: what an instruction has to wait for."""

import numpy as np
from numpy.typing import NDArray

from lathe.isa import Unit
from lathe.scheduler.emission.footprints import Cells, Footprint, Footprints
from lathe.scheduler.state.memories import DRAM, SCRATCHPADS
from lathe.scheduler.target.element import depth_of

NONE = -1


class LastUses:
    """Per unit and cell of every memory, the numbers of the instructions that wrote and that touched it last."""

    def __init__(self, footprints: Footprints) -> None:
        first, end = footprints.tracked
        sizes = {scope: depth_of(footprints.config, scope) for scope in SCRATCHPADS}
        sizes[DRAM] = (end - first) // footprints.grain + 1
        self.writer = {memory: np.full((len(Unit), size), NONE, np.int64) for memory, size in sizes.items()}
        self.user = {memory: np.full((len(Unit), size), NONE, np.int64) for memory, size in sizes.items()}

    def needed(self, footprint: Footprint, unit: Unit) -> list[int]:
        """Per other unit, the last instruction that one with this footprint must wait for."""
        latest = [NONE] * len(Unit)
        writes = footprint.writes
        for memory, cells in footprint.reads:
            if not any(memory == other and cells is those for other, those in writes):
                _take(latest, self.writer[memory], cells)
        for memory, cells in writes:
            _take(latest, self.user[memory], cells)
        latest[unit] = NONE
        return latest

    def last(self, memory: str, cells: Cells, without: Unit | None = None) -> NDArray[np.int64]:
        """Of each cell the last instruction that touched it, of any unit or of others than one."""
        users = [numbers[cells] for unit, numbers in zip(Unit, self.user[memory], strict=True) if unit is not without]
        found: NDArray[np.int64] = np.max(users, axis=0)
        return found

    def is_last(self, unit: Unit, memory: str, cells: Cells) -> NDArray[np.bool_]:
        """Whether an instruction of a unit was the last to touch a cell."""
        users = self.user[memory][:, cells]
        found: NDArray[np.bool_] = (users[unit] > NONE) & (users[unit] == users.max(axis=0))
        return found

    def note(self, footprint: Footprint, unit: Unit, number: int) -> None:
        """Instruction ``number`` touches these cells now."""
        for memory, cells in footprint.reads:
            self.user[memory][unit, cells] = number
        for memory, cells in footprint.writes:
            self.user[memory][unit, cells] = number
            self.writer[memory][unit, cells] = number


def _take(latest: list[int], numbers: "np.ndarray[tuple[int, int], np.dtype[np.int64]]", cells: Cells) -> None:
    """Let the last instructions on some cells, by unit, be among the latest."""
    touched = numbers[:, cells]
    if touched.size:
        for unit, number in enumerate(touched.max(axis=1).tolist()):
            if number > latest[unit]:
                latest[unit] = number
