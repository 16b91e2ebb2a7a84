"""Virtual threads: iterations of a loop whose statements are interleaved.

A walk over a partitioned nest begins with one thread. At a loop with threads, each thread becomes as many as the loop
says, one per iteration (fewer in the last group); every node inside is then executed for all threads before the next
node is. Buffers allocated inside belong to one thread; those outside are shared. The idea is TVM's, whose virtual
threads hide the latency of loads on VTA.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from lathe.frontend.arith.linear import LoopVariable
from lathe.scheduler.loop_ir.nodes import Loop

Memory = TypeVar("Memory")


@dataclass
class Thread(Generic[Memory]):
    """One of ``of`` concurrent threads: its number, the values of loops (set by ``iteration_groups``), its state."""

    number: int
    environment: "dict[LoopVariable, int]"
    own: Memory
    of: int = 1


def iteration_groups(
    threads: list[Thread[Memory]], loop: "Loop", fork: Callable[[Memory], Memory]
) -> Iterator[list[Thread[Memory]]]:
    """The threads for each group of iterations of a loop; ``fork`` returns the private state of a new thread."""
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
