"""Dependence tokens, derived from what instructions touch.

Instructions are taken in stream order. Each one depends on the last writer of every cell that it reads, and on the last
writer and the readers since of every cell that it writes, in the scratchpads and in DRAM. Within a unit, order is
given. Between neighbouring units a dependence becomes a token, unless earlier tokens imply it already, directly or
through the third unit; vector clocks tell. Load and store are no neighbours: compute passes the news on, with an
instruction that does nothing where none of its own will do.

Every token goes from an instruction to one that comes later in the stream, so the stream order itself is a legal
execution and no stream made here can deadlock.
"""

from bisect import bisect_left
from dataclasses import replace
from typing import Any

import numpy as np

from lathe.configs import HardwareConfig
from lathe.isa import Instruction, Load, MemoryType, Unit, unit_of
from lathe.scheduler.allocation import depth_of
from lathe.scheduler.footprints import Footprint, Footprints

UNITS = (Unit.LOAD, Unit.COMPUTE, Unit.STORE)
NONE = -1

Clock = list[int]  # per unit, the last instruction known to be done


class _LastUse:
    """Per unit and cell, the numbers of the instructions that wrote and read it last."""

    def __init__(self, size: int) -> None:
        self.writer = np.full((len(UNITS), size), NONE, np.int64)
        self.reader = np.full((len(UNITS), size), NONE, np.int64)


class TokenPass:
    """Takes instructions in order; ``output`` and ``labels`` are the stream with tokens and relays."""

    def __init__(self, config: HardwareConfig, footprints: Footprints) -> None:
        self.footprints = footprints
        first, end = footprints.tracked
        self.memories = {scope: _LastUse(depth_of(config, scope)) for scope in ("inp", "wgt", "acc")}
        self.memories["dram"] = _LastUse((end - first) // footprints.grain + 1)
        self.output: list[Instruction] = []
        self.labels: list[int] = []
        self.done: list[Clock] = []  # per instruction, what is known to be done when it is done
        self.known: list[Clock] = [[NONE] * len(UNITS) for _ in UNITS]  # per unit, from its next instruction on
        self.of_unit: list[list[int]] = [[] for _ in UNITS]

    def add(self, instruction: Instruction, label: int) -> None:
        """Append an instruction that waits for what its cells need."""
        unit = unit_of(instruction)
        footprint = self.footprints.of(instruction)
        needed = self._needed(footprint, unit)
        if unit != Unit.COMPUTE:
            far = Unit.STORE if unit == Unit.LOAD else Unit.LOAD
            if needed[far] > self.known[unit][far]:
                relay = self._relay(far, needed[far], label)
                needed[Unit.COMPUTE] = max(needed[Unit.COMPUTE], relay)
            needed[far] = NONE
        number = self._append(instruction, label, unit, needed)
        for memory, cells in footprint.reads:
            self.memories[memory].reader[unit][cells] = number
        for memory, cells in footprint.writes:
            self.memories[memory].writer[unit][cells] = number

    def _append(self, instruction: Instruction, label: int, unit: Unit, needed: Clock) -> int:
        number = len(self.output)
        self.output.append(instruction)
        self.labels.append(label)
        for other in UNITS:
            if other != unit and needed[other] > self.known[unit][other]:
                self._token(other, needed[other], unit, number)
        self.known[unit][unit] = number
        self.done.append(list(self.known[unit]))
        self.of_unit[unit].append(number)
        return number

    def _token(self, giver: Unit, pusher: int, taker: Unit, popper: int) -> None:
        assert abs(giver - taker) == 1, f"no queue from {giver.name} to {taker.name}"
        forward = giver < taker
        self._mark(pusher, "push_next" if forward else "push_prev")
        self._mark(popper, "pop_prev" if forward else "pop_next")
        self.known[taker] = [max(a, b) for a, b in zip(self.known[taker], self.done[pusher], strict=True)]

    def _mark(self, number: int, field: str) -> None:
        assert not getattr(self.output[number], field), f"{field} of instruction {number} is set twice"
        flag: dict[str, Any] = {field: True}
        self.output[number] = replace(self.output[number], **flag)

    def _relay(self, far: Unit, needed: int, label: int) -> int:
        """An instruction of compute that is done only after the far unit's; one that does nothing, if there is none."""
        candidates = self.of_unit[Unit.COMPUTE]
        position = bisect_left(candidates, needed, key=lambda number: self.done[number][far])
        if position < len(candidates):
            return candidates[position]
        waits = [NONE] * len(UNITS)
        waits[far] = needed
        return self._append(Load(MemoryType.UOP, 0, 0, 0, 0, 0), label, Unit.COMPUTE, waits)

    def _needed(self, footprint: Footprint, unit: Unit) -> Clock:
        """Per unit, the last instruction that one with this footprint must wait for."""
        latest = [NONE] * len(UNITS)
        for other in UNITS:
            if other == unit:
                continue
            for memory, cells in footprint.reads:
                latest[other] = max(latest[other], _last(self.memories[memory].writer[other][cells]))
            for memory, cells in footprint.writes:
                use = self.memories[memory]
                latest[other] = max(latest[other], _last(use.writer[other][cells]), _last(use.reader[other][cells]))
        return latest


def _last(numbers: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]") -> int:
    return int(numbers.max()) if numbers.size else NONE
