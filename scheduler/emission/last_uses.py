"""Which instruction touched a cell last: what an instruction has to wait for."""

import numpy as np

from lathe.isa import Unit
from lathe.scheduler.emission.footprints import Footprint, Footprints
from lathe.scheduler.target.allocation import depth_of

NONE = -1


class LastUses:
    """Per unit and cell of every memory, the numbers of the instructions that wrote and read it last."""

    def __init__(self, footprints: Footprints) -> None:
        first, end = footprints.tracked
        sizes = {scope: depth_of(footprints.config, scope) for scope in ("inp", "wgt", "acc")}
        sizes["dram"] = (end - first) // footprints.grain + 1
        self.writer = {memory: np.full((len(Unit), size), NONE, np.int64) for memory, size in sizes.items()}
        self.reader = {memory: np.full((len(Unit), size), NONE, np.int64) for memory, size in sizes.items()}

    def needed(self, footprint: Footprint, unit: Unit) -> list[int]:
        """Per other unit, the last instruction that one with this footprint must wait for."""
        latest = [NONE] * len(Unit)
        for other in Unit:
            if other == unit:
                continue
            for memory, cells in footprint.reads:
                latest[other] = max(latest[other], _last(self.writer[memory][other][cells]))
            for memory, cells in footprint.writes:
                writer, reader = self.writer[memory], self.reader[memory]
                latest[other] = max(latest[other], _last(writer[other][cells]), _last(reader[other][cells]))
        return latest

    def note(self, footprint: Footprint, unit: Unit, number: int) -> None:
        """Instruction ``number`` touches these cells now."""
        for memory, cells in footprint.reads:
            self.reader[memory][unit][cells] = number
        for memory, cells in footprint.writes:
            self.writer[memory][unit][cells] = number


def _last(numbers: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]") -> int:
    return int(numbers.max()) if numbers.size else NONE
