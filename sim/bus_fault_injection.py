"""Injected error responses of the memory: to a beat or burst chosen by a test, and beyond the memory's end."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from lathe.isa import BusError
from lathe.sim.memory_port import READ, WRITE, Port, Watcher


@dataclass(frozen=True)
class FaultyMemory:
    """What the memory responds to with errors: ``error``, and every beat from byte ``end`` on (None: no end)."""

    error: BusError | None = None
    end: int | None = None


FAULTLESS = FaultyMemory()


class ErrorResponse(NamedTuple):
    """An error response in ``cycle`` to a burst of ``instruction``, None for fetch's.

    ``outside``: the end of the transfer's range if that leaves the memory, None for an injected error.
    """

    cycle: int
    direction: int
    instruction: int | None
    outside: int | None


@dataclass
class Watch:
    """Finds error responses among the bursts that the port serves; ``first`` has the first of each direction."""

    memory: FaultyMemory
    bus_shift: int
    first: dict[int, ErrorResponse] = field(default_factory=dict)

    def beat(self, address: int, beats: int) -> int:
        """The index of a burst's first beat beyond the memory's end, `beats` when there is none."""
        if self.memory.end is None:
            return beats
        inside = -(-self.memory.end >> self.bus_shift) - (address >> self.bus_shift)
        return min(max(inside, 0), beats)

    def named(self, channel: str, number: int, count: int) -> int:
        """The offset of the injected error among `count` numbers from `number` on, `count` when it is not there."""
        error = self.memory.error
        if error is None or error.channel != channel:
            return count
        offset = error.number - number
        return offset if 0 <= offset < count else count

    def answer(self, cycle: int, direction: int, instruction: int | None, outside: int | None) -> None:
        """Record an error response."""
        if direction not in self.first or cycle < self.first[direction].cycle:
            self.first[direction] = ErrorResponse(cycle, direction, instruction, outside)

    def reads(self, port: Port, end_of: Callable[[int | None], int]) -> Watcher:
        """The watcher of read bursts; ``end_of`` returns the end of an instruction's transfer."""

        def look(instruction: int | None, address: int, beats: int, number: int, end: int) -> None:
            named, outside = self.named("read", number, beats), self.beat(address, beats)
            wrong = min(named, outside)
            if wrong < beats:
                range_end = end_of(instruction) if outside <= named else None
                self.answer(end - (beats - 1 - wrong) * port.cycles_per_beat, READ, instruction, range_end)

        return look

    def writes(self, response_latency: int, end_of: Callable[[int | None], int]) -> Watcher:
        """The watcher of write bursts."""

        def look(instruction: int | None, address: int, beats: int, number: int, end: int) -> None:
            outside = self.beat(address, beats) < beats
            if outside or self.named("write", number, 1) == 0:
                self.answer(end + response_latency, WRITE, instruction, end_of(instruction) if outside else None)

        return look
