"""Happens-before order of a stream, from the units' queues and the dependence tokens.

Each token queue has one pushing and one popping unit, and both work in order, so the k-th pop waits for the k-th push
(tokens of earlier launches first). Happens-before is therefore exact and cheap: vector clocks (Mattern, 1989) over
three units. An instruction's tokens are pushed when it and all earlier ones of its unit are done, and popped before it
and all later ones of its unit start; so overlap of instructions within a unit does not affect the order.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lathe.isa.columnar_stream import Columns, Ints
from lathe.isa.dispatch import Dispatch
from lathe.isa.table import QUEUE_OF, TokenQueue, Unit


@dataclass(frozen=True)
class Order:
    """The happens-before order of a stream's N instructions.

    ``position`` (N,): index in the unit's queue. ``clock`` (N, 3): how many instructions of each unit are certainly
    done before this one starts; for its own unit, its position. ``sequence``: the instructions that get to run, in an
    order that respects happens-before (stream order where tokens allow it). ``blocked``: for each deadlocked unit, its
    instruction and the empty queues that it waits for. ``unfetched``: the instruction at which fetch stalls forever
    because its unit's queue stays full, or None. ``tokens_after``: the counts at the end.
    """

    unit: Ints
    position: Ints
    clock: NDArray[np.int64]
    sequence: Ints
    blocked: dict[Unit, tuple[int, tuple[TokenQueue, ...]]]
    unfetched: int | None
    tokens_after: tuple[int, int, int, int]


def order_of(columns: Columns, tokens: Sequence[int] = (0, 0, 0, 0), queue_depth: int | None = None) -> Order:
    """The order of a stream that starts with the given counts of tokens.

    Fetch dispatches in order, to command queues of ``queue_depth`` instructions each (None: unlimited). Token fields
    that name no neighbour are ignored here.
    """
    count = len(columns)
    units = columns.unit
    queues = [np.flatnonzero(units == unit) for unit in Unit]
    position = np.zeros(count, np.int64)
    for queue in queues:
        position[queue] = np.arange(len(queue))
    pops = token_queues(columns, ("pop_prev", "pop_next"))
    pushes = token_queues(columns, ("push_prev", "push_next"))
    dispatch = Dispatch(units.tolist(), count if queue_depth is None else queue_depth)
    return _run(units, position, [queue.tolist() for queue in queues], pops, pushes, tokens, dispatch)


def token_queues(columns: Columns, fields: tuple[str, str]) -> list[tuple[int, ...]]:
    """For each instruction, the queues that the given token fields name."""
    queue_of = np.full((2, len(Unit)), -1)
    for row, name in enumerate(fields):
        for unit in Unit:
            queue_of[row, unit] = QUEUE_OF.get((unit, name), -1)
    first, second = (np.where(columns[name] != 0, queue_of[row][columns.unit], -1) for row, name in enumerate(fields))
    # Most instructions have at most one: share the tuples.
    known = {(a, b): tuple(queue for queue in (a, b) if queue >= 0) for a in range(-1, 4) for b in range(-1, 4)}
    return [known[pair] for pair in zip(first.tolist(), second.tolist(), strict=True)]


def _run(
    units: Ints,
    position: Ints,
    waiting: list[list[int]],
    pops: list[tuple[int, ...]],
    pushes: list[tuple[int, ...]],
    tokens: Sequence[int],
    dispatch: Dispatch,
) -> Order:
    """Simulate the units: among those that can proceed, the one whose instruction is first in the stream does.

    If that instruction is not dispatched, no other that could proceed is, since all of those are before it in the
    stream.
    """
    count = len(units)
    # A token carries the clock of the instruction that pushed it; tokens of earlier launches carry zeros.
    held: list[deque[tuple[int, int, int]]] = [deque([(0, 0, 0)] * number) for number in tokens]
    clocks = [(0, 0, 0)] * len(Unit)
    heads = [iter(queue) for queue in waiting]
    next_of = [next(head, count) for head in heads]
    clock = np.zeros((count, len(Unit)), np.int64)
    rows: list[tuple[int, int, int]] = []
    sequence: list[int] = []
    while True:
        chosen, index = -1, count
        for unit in Unit:
            candidate = next_of[unit]
            if candidate < index and all(held[queue] for queue in pops[candidate]):
                chosen, index = unit, candidate
        if chosen < 0 or not dispatch.reaches(index):
            break
        dispatch.start(chosen)
        now = clocks[chosen]
        for queue in pops[index]:
            other = held[queue].popleft()
            now = (max(now[0], other[0]), max(now[1], other[1]), max(now[2], other[2]))
        sequence.append(index)
        rows.append(now)
        done = list(now)
        done[chosen] += 1
        clocks[chosen] = (done[0], done[1], done[2])
        for queue in pushes[index]:
            held[queue].append(clocks[chosen])
        next_of[chosen] = next(heads[chosen], count)
    dispatch.reaches(count - 1)
    if sequence:
        clock[sequence] = rows
    blocked = {
        Unit(unit): (index, tuple(TokenQueue(queue) for queue in pops[index] if not held[queue]))
        for unit, index in enumerate(next_of)
        if index < dispatch.dispatched
    }
    after = tuple(len(queue) for queue in held)
    return Order(
        units,
        position,
        clock,
        np.array(sequence, np.int64),
        blocked,
        dispatch.dispatched if dispatch.waits else None,
        (after[0], after[1], after[2], after[3]),
    )
