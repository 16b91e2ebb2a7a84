"""Untimed model of fetch: instructions enter the units' command queues in order while these have space."""

from collections.abc import Sequence

from lathe.isa.table import Unit


class Dispatch:
    """Command queues of ``depth`` instructions each, between fetch and the ``units`` of a stream's instructions.

    Fetch has ``dispatched`` that many instructions; the next one waits while its unit's queue is full. Each unit starts
    the instructions of its queue in order.
    """

    def __init__(self, units: Sequence[int], depth: int) -> None:
        self.units = units
        self.depth = depth
        self.dispatched = 0
        self.queued = [0] * len(Unit)

    @property
    def waits(self) -> bool:
        """Whether fetch is stalled by a full queue."""
        return self.dispatched < len(self.units) and self.queued[self.units[self.dispatched]] == self.depth

    def fetch(self) -> bool:
        """Dispatch the next instruction; false when there is none or its queue is full."""
        if self.dispatched == len(self.units):
            return False
        unit = self.units[self.dispatched]
        if self.queued[unit] == self.depth:
            return False
        self.queued[unit] += 1
        self.dispatched += 1
        return True

    def reaches(self, index: int) -> bool:
        """Dispatch up to an instruction of the stream; false when fetch stalls before it."""
        while self.dispatched <= index:
            if not self.fetch():
                return False
        return True

    def start(self, unit: int) -> None:
        """A unit removes the instruction at its queue's head."""
        self.queued[unit] -= 1
