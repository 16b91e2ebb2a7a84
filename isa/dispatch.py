"""Fetch without its time: instructions go to the units' command queues in order, as far as these have room."""

from collections.abc import Sequence

from lathe.isa.table import Unit


class Dispatch:
    """Queues of ``depth`` instructions each, between fetch and the ``units`` that a stream's instructions belong to.

    ``dispatched`` instructions have left fetch; the next waits while its unit's queue is full. What has left fetch has
    been started in part: each unit takes the instructions of its queue in order.
    """

    def __init__(self, units: Sequence[int], depth: int) -> None:
        self.units = units
        self.depth = depth
        self.dispatched = 0
        self.queued = [0] * len(Unit)

    @property
    def waits(self) -> bool:
        """Whether fetch has an instruction for which there is no room."""
        return self.dispatched < len(self.units) and self.queued[self.units[self.dispatched]] == self.depth

    def fetch(self) -> bool:
        """Dispatch the next instruction; false when there is none or no room for it."""
        if self.dispatched == len(self.units):
            return False
        unit = self.units[self.dispatched]
        if self.queued[unit] == self.depth:
            return False
        self.queued[unit] += 1
        self.dispatched += 1
        return True

    def reaches(self, index: int) -> bool:
        """Dispatch as far as an instruction of the stream; false when fetch waits before that."""
        while self.dispatched <= index:
            if not self.fetch():
                return False
        return True

    def start(self, unit: int) -> None:
        """A unit takes the instruction at its queue's head."""
        self.queued[unit] -= 1
