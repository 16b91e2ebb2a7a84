"""Which instruction touched a cell last: what an instruction has to wait for."""

import numpy as np
from numpy.typing import NDArray

from lathe.isa import Unit
from lathe.scheduler.emission.footprints import Cells, Footprint, Footprints
from lathe.scheduler.state.memories import DRAM, SCRATCHPADS
from lathe.scheduler.target.element import depth_of

NONE = -1

Rows = dict[Unit, NDArray[np.int32]]
"""By cell the number of an instruction, of those units that touch the memory at all."""


class LastUses:
    """Per unit and cell of every memory, the numbers of the instructions that wrote and that touched it last."""

    def __init__(self, footprints: Footprints) -> None:
        first, end = footprints.tracked
        self._sizes = {scope: depth_of(footprints.config, scope) for scope in SCRATCHPADS}
        self._sizes[DRAM] = (end - first) // footprints.grain + 1
        self._writer: dict[str, Rows] = {memory: {} for memory in self._sizes}
        self._user: dict[str, Rows] = {memory: {} for memory in self._sizes}

    def needed(self, footprint: Footprint, unit: Unit) -> list[int]:
        """Per other unit, the last instruction that one with this footprint must wait for."""
        latest = [NONE] * len(Unit)
        writes = footprint.writes
        for memory, cells in footprint.reads:
            if not any(memory == other and cells is those for other, those in writes):
                _take(latest, self._writer[memory], cells, unit)
        for memory, cells in writes:
            _take(latest, self._user[memory], cells, unit)
        return latest

    def note(self, footprint: Footprint, unit: Unit, number: int) -> None:
        """Instruction ``number`` touches these cells now."""
        for memory, cells in footprint.reads:
            self._row(self._user, memory, unit)[cells] = number
        for memory, cells in footprint.writes:
            self._row(self._user, memory, unit)[cells] = number
            self._row(self._writer, memory, unit)[cells] = number

    def _row(self, rows: dict[str, Rows], memory: str, unit: Unit) -> NDArray[np.int32]:
        found = rows[memory].get(unit)
        if found is None:
            found = rows[memory][unit] = np.full(self._sizes[memory], NONE, np.int32)
        return found


def _take(latest: list[int], rows: Rows, cells: Cells, unit: Unit) -> None:
    """Let the last instructions of other units on some cells be among the latest."""
    for other, numbers in rows.items():
        if other is not unit:
            number = int(np.maximum.reduce(numbers[cells], initial=NONE))
            if number > latest[other]:
                latest[other] = number
