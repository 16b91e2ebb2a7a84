"""Counters of tokens that may overflow: how many tokens a queue can hold at once, however fast the units are."""

from collections.abc import Sequence

import numpy as np

from lathe.isa.columnar_stream import Columns
from lathe.isa.happens_before import Order, token_queues
from lathe.isa.table import MOST_TOKENS, QUEUE_OF, TokenQueue, Unit

# Of each unit, how many instructions have started for certain.
Started = tuple[int, int, int]

_POPPING = {queue: unit for (unit, name), queue in QUEUE_OF.items() if name.startswith("pop")}


def overflows(columns: Columns, order: Order, tokens: Sequence[int], queue_depth: int) -> dict[TokenQueue, int]:
    """For each queue that may hold more tokens than its counter does, the first instruction that may push one too many.

    A push meets the more tokens the fewer pops have come before it. Certain are those of instructions that started
    before the pushing one ended, by tokens or because fetch, which works in order, found room for it behind them.
    """
    pushes = token_queues(columns, ("push_prev", "push_next"))
    counts = np.zeros(len(TokenQueue), np.int64)
    for index in order.sequence.tolist():
        counts[list(pushes[index])] += 1
    concerned = {queue for queue in TokenQueue if tokens[queue] + counts[queue] > MOST_TOKENS}
    return _Counts(columns, order, tokens, queue_depth, concerned).run() if concerned else {}


class _Counts:
    """Goes through the instructions in one order that they can run in; what is certain does not depend on which."""

    def __init__(
        self, columns: Columns, order: Order, tokens: Sequence[int], queue_depth: int, concerned: set[TokenQueue]
    ) -> None:
        self.units = columns.unit.tolist()
        self.sequence = order.sequence.tolist()
        self.pops = token_queues(columns, ("pop_prev", "pop_next"))
        self.pushes = token_queues(columns, ("push_prev", "push_next"))
        self.tokens = tokens
        self.queue_depth = queue_depth
        self.concerned = concerned
        # Of each unit: what was certain when its instructions started, and when the last of them ended.
        self.starts: list[list[Started]] = [[] for _ in Unit]
        self.ended: list[Started] = [(0, 0, 0)] * len(Unit)
        # Of each queue: what was certain at the pushes; for n instructions of the popping unit, their pops.
        self.pushed: list[list[Started]] = [[] for _ in TokenQueue]
        self.popped: list[list[int]] = [[0] for _ in TokenQueue]
        # Fetch: how many instructions it has dispatched, of each unit too, and what was certain then.
        self.fetched = 0
        self.behind = [0] * len(Unit)
        self.dispatched: Started = (0, 0, 0)
        self.at_dispatch: dict[int, Started] = {}

    def run(self) -> dict[TokenQueue, int]:
        found: dict[TokenQueue, int] = {}
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
                there = self.tokens[queue] + len(self.pushed[queue]) - self.popped[queue][ended[_POPPING[queue]]]
                if queue in self.concerned and there > MOST_TOKENS:
                    found.setdefault(queue, index)
        return found

    def fetch(self, index: int) -> None:
        """Dispatch all instructions up to one, each when its queue has room for it."""
        while self.fetched <= index:
            unit = self.units[self.fetched]
            leaver = self.behind[unit] - self.queue_depth
            if leaver >= 0:
                self.dispatched = _later(self.dispatched, self.starts[unit][leaver])
            self.behind[unit] += 1
            self.at_dispatch[self.fetched] = self.dispatched
            self.fetched += 1


def _later(one: Started, other: Started) -> Started:
    return max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2])
