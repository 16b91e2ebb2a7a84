"""Task queue with affinity: a process gets tasks of the family that it worked on, since these share work."""

from collections import deque
from collections.abc import Hashable, Iterator
from itertools import islice

from lathe.sweeps.workers import Task

AHEAD = 4096
"""The number of tasks that are fetched in advance; sweeps may have 10⁸."""


class TaskQueue:
    """Distributes tasks to processes: of the process's family, else of one not yet started, else of the largest."""

    def __init__(self, tasks: Iterator[Task], ahead: int = AHEAD) -> None:
        self.tasks, self.ahead = tasks, ahead
        self.waiting: dict[Hashable, deque[Task]] = {}
        self.started: set[Hashable] = set()
        self.held = 0

    def take(self, family: Hashable) -> Task | None:
        """The next task for a process whose last task was of ``family``; None if there is none."""
        for task in islice(self.tasks, self.ahead - self.held):
            self.waiting.setdefault(task.family, deque()).append(task)
            self.held += 1
        if not self.waiting:
            return None
        if family not in self.waiting:
            new = next((each for each in self.waiting if each not in self.started), None)
            family = max(self.waiting, key=lambda each: len(self.waiting[each])) if new is None else new
        self.started.add(family)
        task = self.waiting[family].popleft()
        self.held -= 1
        if not self.waiting[family]:
            del self.waiting[family]
        return task
