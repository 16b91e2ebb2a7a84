"""Worst-case token counts: how many tokens a queue may hold at once, at any relative speed of the units."""

from collections.abc import Sequence

import numpy as np

from lathe.isa.columnar_stream import Columns
from lathe.isa.happens_before import Order, token_queues
from lathe.isa.table import MOST_TOKENS, QUEUE_OF, TokenQueue, Unit

# For each unit, how many instructions have certainly started.
Started = tuple[int, int, int]

_POPPING = {queue: unit for (unit, name), queue in QUEUE_OF.items() if name.startswith("pop")}


def overflows(columns: Columns, order: Order, tokens: Sequence[int], queue_depth: int) -> dict[TokenQueue, int]:
    """For each queue that may exceed its counter, the first instruction whose push may overflow it.

    The count at a push is highest with the fewest earlier pops. Certain are the pops of instructions that started
    before the pushing one ended, enforced by tokens or by fetch, which dispatches in order and needed space in their
    queue.
    """
    pushes = token_queues(columns, ("push_prev", "push_next"))
    counts = np.zeros(len(TokenQueue), np.int64)
    for index in order.sequence.tolist():
        counts[list(pushes[index])] += 1
    candidates = {queue for queue in TokenQueue if tokens[queue] + counts[queue] > MOST_TOKENS}
    return _Counts(columns, order, tokens, queue_depth, candidates).run() if candidates else {}


class _Counts:
    """Visits the instructions in one order in which they can run; what is certain does not depend on which."""

    def __init__(
        self, columns: Columns, order: Order, tokens: Sequence[int], queue_depth: int, candidates: set[TokenQueue]
    ) -> None:
        self.units = columns.unit.tolist()
        self.sequence = order.sequence.tolist()
        self.pops = token_queues(columns, ("pop_prev", "pop_next"))
        self.pushes = token_queues(columns, ("push_prev", "push_next"))
        self.tokens = tokens
        self.queue_depth = queue_depth
        self.candidates = candidates
        # For each unit: what was certain when its instructions started, and when the last of them ended.
        self.starts: list[list[Started]] = [[] for _ in Unit]
        self.ended: list[Started] = [(0, 0, 0)] * len(Unit)
        # For each queue: what was certain at the pushes; for n instructions of the popping unit, their pops.
        self.pushed: list[list[Started]] = [[] for _ in TokenQueue]
        self.popped: list[list[int]] = [[0] for _ in TokenQueue]
        # Fetch: the number of dispatched instructions, also by unit, and what was certain then.
        self.fetched = 0
        self.fetched_by_unit = [0] * len(Unit)
        self.dispatched: Started = (0, 0, 0)
        self.at_dispatch: dict[int, Started] = {}

    def run(self) -> dict[TokenQueue, int]:
        overflowing: dict[TokenQueue, int] = {}
        taken = [0] * len(TokenQueue)
        for index in self.sequence:
            unit = self.units[index]
            self.fetch(index)
            known = _later(self.at_dispatch.pop(index), self.starts[unit][-1] if self.starts[unit] else (0, 0, 0))
            for queue in self.pops[index]:
                if taken[queue] >= self.tokens[queue]:
                    known = _later(known, self.pushed[queue][taken[queue] - self.tokens[queue]])
                taken[queue] += 1
            own = list(known)
            own[unit] += 1
            started = (own[0], own[1], own[2])
            self.starts[unit].append(started)
            for queue, popping in _POPPING.items():
                if popping == unit:
                    self.popped[queue].append(taken[queue])
            ended = self.ended[unit] = _later(started, self.ended[unit])
            for number in self.pushes[index]:
                queue = TokenQueue(number)
                self.pushed[queue].append(ended)
                count = self.tokens[queue] + len(self.pushed[queue]) - self.popped[queue][ended[_POPPING[queue]]]
                if queue in self.candidates and count > MOST_TOKENS:
                    overflowing.setdefault(queue, index)
        return overflowing

    def fetch(self, index: int) -> None:
        """Dispatch all instructions up to one, each when its queue has space for it."""
        while self.fetched <= index:
            unit = self.units[self.fetched]
            leaver = self.fetched_by_unit[unit] - self.queue_depth
            if leaver >= 0:
                self.dispatched = _later(self.dispatched, self.starts[unit][leaver])
            self.fetched_by_unit[unit] += 1
            self.at_dispatch[self.fetched] = self.dispatched
            self.fetched += 1


def _later(one: Started, other: Started) -> Started:
    return max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2])
