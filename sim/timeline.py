"""The record that the units fill in while they run: cycles of each instruction, tokens, stalls."""

from collections.abc import Sequence
from typing import NamedTuple

from lathe.configs.memory import DECODE
from lathe.isa.stall import StallCause
from lathe.sim.memory_port import NEVER
from lathe.sim.stall_accounting import EMPTY, MEMORY, NONE, TOKEN_CAUSES, attribute
from lathe.sim.timing_ops import Commands

UNITS = 3
LOAD, COMPUTE, STORE, FETCH = 0, 1, 2, 3


class Missing(NamedTuple):
    """A token that was not ``known`` yet when it was needed, and its number among those of its queue."""

    known: list[int]
    token: int


class Timeline:
    """Cycles of a launch, by instruction, filled in as they become known.

    ``tokens[q]`` has, for each token pushed into queue `q`, the first cycle in which it can be popped; ``pops[q]`` the
    cycles in which tokens were popped. ``queues[u]`` lists the instructions dispatched to unit `u`, ``starts[u]`` when
    they left its queue. ``stalls[u][cause]`` and ``busy[u]`` count cycles of the units and, last, of fetch.
    """

    def __init__(self, commands: Commands, tokens: Sequence[int]) -> None:
        count = len(commands)
        self.commands = commands
        self.start = [-1] * count
        self.end = [-1] * count
        self.cause = [NONE] * count
        self.stalled = [0] * count
        self.waited = [0] * count
        self.dispatch = [-1] * count
        self.dispatch_cause = [NONE] * count
        self.dispatch_stalled = [0] * count
        self.queues: list[list[int]] = [[] for _ in range(UNITS)]
        self.starts: list[list[int]] = [[] for _ in range(UNITS)]
        self.tokens = [[0] * number for number in tokens]
        self.pops: list[list[int]] = [[] for _ in self.tokens]
        self.missing = [Missing([], -1)] * UNITS
        self.stalls = [[0] * len(StallCause) for _ in range(UNITS + 1)]
        self.busy = [0] * (UNITS + 1)

    def waits(self, unit: int) -> bool:
        """Whether the instruction at the head of a unit's queue waits for a token that is still unknown."""
        known, token = self.missing[unit]
        return token == len(known)

    def begin(self, instruction: int, boundary: int, free: int, more: tuple[int, int] | None = None) -> int:
        """Start the instruction at its queue's head as soon as possible; returns the cycle, NEVER while it is unknown.

        Its unit is free for it from `free` on; cycles from `boundary` on are stalls: for the instruction, then for its
        tokens, then for ``more``, a cause with the first cycle in which it no longer holds.
        """
        command = self.commands[instruction]
        unit = command.unit
        ready = self.dispatch[instruction] + 1 + DECODE
        start = ready if ready > free else free
        if command.pops or more is not None:
            conditions = [(EMPTY, ready)]
            for queue in command.pops:
                known, next_token = self.tokens[queue], len(self.pops[queue])
                if next_token == len(known):
                    self.missing[unit] = Missing(known, next_token)
                    return NEVER
                conditions.append((TOKEN_CAUSES[queue], known[next_token]))
            if more is not None:
                conditions.append(more)
            for _, met in conditions:
                if met > start:
                    start = met
            for queue in command.pops:
                self.pops[queue].append(start)
            if start > boundary:
                self.stalled[instruction] = start - boundary
                self.cause[instruction] = attribute(self.stalls[unit], boundary, conditions)
        elif start > boundary:
            self.stalled[instruction] = start - boundary
            if ready > boundary:
                self.stalls[unit][EMPTY] += ready - boundary
                self.cause[instruction] = EMPTY
        self.start[instruction] = start
        self.starts[unit].append(start)
        return start

    def spend(self, instruction: int, steps: int, waited: int) -> None:
        """Record that the instruction kept its unit busy for `steps` cycles, and waiting for memory for `waited`."""
        unit = self.commands[instruction].unit
        self.busy[unit] += steps
        self.waited[instruction] = waited
        self.stalls[unit][MEMORY] += waited

    def finish(self, instruction: int, end: int) -> None:
        """Record that the instruction is done in cycle `end` and pushes its tokens."""
        self.end[instruction] = end
        for queue in self.commands[instruction].pushes:
            self.tokens[queue].append(end + 1)
