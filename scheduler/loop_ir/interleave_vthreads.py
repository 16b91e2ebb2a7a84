"""Virtual threads: iterations of a loop that are carried out together, statement by statement in turn.

A walk over a partitioned nest has one thread to begin with. At a loop with threads, each of them becomes as many as the
loop says, for as many iterations at once (fewer in the last turn); every node inside is then carried out for each
before the next node is. Buffers that are acquired inside belong to one thread; what is outside is shared. The idea is
TVM's, whose virtual threads VTA uses to hide the time of loads.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from lathe.frontend.arith.linear import LoopVariable
from lathe.scheduler.loop_ir.nodes import Loop

Memory = TypeVar("Memory")


@dataclass
class Thread(Generic[Memory]):
    """One thread of a walk: its number among those ``of`` side by side, the values of loops, and what it has alone.

    Who walks a nest lets the values of its loops go on.
    """

    number: int
    environment: "dict[LoopVariable, int]"
    own: Memory
    of: int = 1


def turns(
    threads: list[Thread[Memory]], loop: "Loop", fork: Callable[[Memory], Memory]
) -> Iterator[list[Thread[Memory]]]:
    """The threads for each turn of a loop; ``fork`` gives a thread that begins there what it has of its own."""
    if loop.threads == 1:
        for value in range(loop.first, loop.last + 1):
            for thread in threads:
                thread.environment[loop.variable] = value
            yield threads
        for thread in threads:
            del thread.environment[loop.variable]
        return
    for first in range(loop.first, loop.last + 1, loop.threads):
        values = range(first, min(first + loop.threads, loop.last + 1))
        yield [
            Thread(
                outer.number * loop.threads + n,
                {**outer.environment, loop.variable: value},
                fork(outer.own),
                outer.of * loop.threads,
            )
            for outer in threads
            for n, value in enumerate(values)
        ]
