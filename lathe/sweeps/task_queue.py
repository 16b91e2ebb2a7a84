"""Tasks that wait, by the families that share work: a process goes on with its family, and others begin new ones."""

from collections import deque
from collections.abc import Hashable, Iterator
from itertools import islice

from lathe.sweeps.workers import Task

AHEAD = 4096
"""Tasks that are looked at in advance: sweeps may have 10⁸."""


class Backlog:
    """Where processes take tasks from. Families without a process come first, then the one with the most left."""

    def __init__(self, tasks: Iterator[Task], ahead: int = AHEAD) -> None:
        self.tasks, self.ahead = tasks, ahead
        self.waiting: dict[Hashable, deque[Task]] = {}
        self.begun: set[Hashable] = set()
        self.held = 0

    def take(self, family: Hashable) -> Task | None:
        """The next task for a process that had one of a family before; None where there is none now."""
        for task in islice(self.tasks, self.ahead - self.held):
            self.waiting.setdefault(task.family, deque()).append(task)
            self.held += 1
        if not self.waiting:
            return None
        if family not in self.waiting:
            new = next((each for each in self.waiting if each not in self.begun), None)
            family = max(self.waiting, key=lambda each: len(self.waiting[each])) if new is None else new
        self.begun.add(family)
        task = self.waiting[family].popleft()
        self.held -= 1
        if not self.waiting[family]:
            del self.waiting[family]
        return task
