"""Insertion of dependence tokens, derived from the memory effects of instructions.

Instructions are taken in stream order. Each depends on the last write to every address that it reads, and on the last
write to and later reads from every address that it writes, in scratchpads and DRAM. Each unit executes in order.
Between neighbouring units a dependence becomes a token, unless earlier tokens imply it, directly or through the third
unit, as vector clocks show. Load and store are not neighbours: an instruction of compute relays the dependence, a no-op
if necessary. Waits of manual synchronisation become tokens in the same way; a barrier is a no-op of compute that waits
for all units, and for which all units wait.

Every token goes to a later instruction of the stream, so the stream order itself is a legal execution, and no stream
can deadlock.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from lathe.isa import Instruction, Load, MemoryType, Unit, unit_of
from lathe.isa.table import MOST_TOKENS, TOKEN_FIELDS
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.stream.last_accesses import NONE, LastUses
from lathe.scheduler.stream.memory_effects import EffectsTracker

UNITS = (Unit.LOAD, Unit.COMPUTE, Unit.STORE)

BIT_OF = {name: 1 << number for number, name in enumerate(TOKEN_FIELDS)}
SET_BY: list[dict[str, Any]] = [
    {name: True for name, bit in BIT_OF.items() if mark & bit} for mark in range(1 << len(TOKEN_FIELDS))
]

Clock = list[int]  # per unit, the last instruction known to be done
Label = TypeVar("Label")


class TokenPass(Generic[Label]):
    """Adds tokens to instructions in order; ``output`` and ``labels`` are the stream with relays and ``barriers``.

    Instructions are immutable, so their token fields are collected in ``marks`` until all are known.
    """

    def __init__(self, footprints: EffectsTracker) -> None:
        self.footprints = footprints
        self.uses = LastUses(footprints)
        self.instructions: list[Instruction] = []
        self.marks: list[int] = []  # per instruction, a bit for each token field that is set
        self.labels: list[Label] = []
        self.barriers: list[int] = []
        self.done: list[tuple[int, ...]] = []  # per instruction, its vector clock when it is done
        self.known: list[Clock] = [[NONE] * len(UNITS) for _ in UNITS]  # per unit, its vector clock now
        self.of_unit: list[list[int]] = [[] for _ in UNITS]
        self.last_taken = [NONE] * len(UNITS)  # per unit, the last instruction of compute that pops its token

    @property
    def output(self) -> list[Instruction]:
        """The stream so far, with tokens; equal chunks share instructions with equal tokens."""
        shared: dict[tuple[int, int], Instruction] = {}
        for each, mark in zip(self.instructions, self.marks, strict=True):
            if (id(each), mark) not in shared:
                shared[id(each), mark] = replace(each, **SET_BY[mark]) if mark else each
        return [shared[id(each), mark] for each, mark in zip(self.instructions, self.marks, strict=True)]

    def add(self, instruction: Instruction, label: Label, waits: Sequence[int] = ()) -> int:
        """Append an instruction that waits for its dependences and for ``waits``; returns its number."""
        unit = unit_of(instruction)
        footprint = self.footprints.of(instruction)
        needed = self.uses.needed(footprint, unit, self.known[unit])
        for number in waits:
            giver = unit_of(self.instructions[number])
            needed[giver] = max(needed[giver], number)
        if unit != Unit.COMPUTE:
            if self.barriers:
                needed[Unit.COMPUTE] = max(needed[Unit.COMPUTE], self.barriers[-1])
            far = Unit.STORE if unit == Unit.LOAD else Unit.LOAD
            if needed[far] > self.known[unit][far]:
                anyway = max(needed[Unit.COMPUTE], self.known[unit][Unit.COMPUTE])
                relay = self._relay(far, needed[far], anyway, label)
                needed[Unit.COMPUTE] = max(needed[Unit.COMPUTE], relay)
            needed[far] = NONE
        number = self._append(instruction, label, unit, needed)
        self.uses.note(footprint, unit, number)
        return number

    def barrier(self, label: Label) -> None:
        """Let every later instruction, of any unit, wait for all earlier ones."""
        before = len(self.instructions)
        if before and self.barriers[-1:] != [before - 1]:
            latest = [numbers[-1] if numbers else NONE for numbers in self.of_unit]
            self.barriers.append(self._append(_no_op(), label, Unit.COMPUTE, latest))

    def check_token_counters(self) -> None:
        """Raises ScheduleError if the counter of a token queue could overflow."""
        for giver, taker in ((a, b) for a in UNITS for b in UNITS if abs(a - b) == 1):
            names = ("push_next", "pop_prev") if giver < taker else ("push_prev", "pop_next")
            pushes, pops = (BIT_OF[name] for name in names)
            pushed = [number for number in self.of_unit[giver] if self.marks[number] & pushes]
            if len(pushed) <= MOST_TOKENS:
                continue
            popped = [number for number in self.of_unit[taker] if self.marks[number] & pops]
            known = [self.done[number][taker] for number in pushed]  # done for certain when the token is pushed
            waiting = max(n + 1 - bisect_right(popped, last) for n, last in enumerate(known))
            if waiting > MOST_TOKENS:
                raise ScheduleError(
                    f"tokens of queue {giver.name.lower()}->{taker.name.lower()} must be at most {MOST_TOKENS} at a "
                    f"time, which its counter holds, not up to {waiting}. Let {giver.name.lower()} wait for "
                    f"{taker.name.lower()} more often: receive tokens earlier, use fewer buffers in double_buffer, or "
                    "insert a barrier.",
                    kind="machine",
                )

    def _append(self, instruction: Instruction, label: Label, unit: Unit, needed: Clock) -> int:
        number = len(self.instructions)
        self.instructions.append(instruction)
        self.marks.append(0)
        self.labels.append(label)
        for other in UNITS:
            if other != unit and needed[other] > self.known[unit][other]:
                self._token(other, needed[other], unit, number)
        known = self.known[unit]
        known[unit] = number
        self.done.append(tuple(known))
        self.of_unit[unit].append(number)
        return number

    def _token(self, giver: Unit, pusher: int, taker: Unit, popper: int) -> None:
        assert abs(giver - taker) == 1, f"no queue from {giver.name} to {taker.name}"
        forward = giver < taker
        self._mark(pusher, "push_next" if forward else "push_prev")
        self._mark(popper, "pop_prev" if forward else "pop_next")
        if taker == Unit.COMPUTE:
            self.last_taken[giver] = popper
        self.known[taker] = [max(a, b) for a, b in zip(self.known[taker], self.done[pusher], strict=True)]

    def _mark(self, number: int, field: str) -> None:
        assert not self.marks[number] & BIT_OF[field], f"{field} of instruction {number} is set twice"
        self.marks[number] |= BIT_OF[field]

    def _relay(self, far: Unit, needed: int, anyway: int, label: Label) -> int:
        """An instruction of compute that is done only after instruction ``needed`` of the far unit.

        If there is none, the one that the waiting unit waits for ``anyway``, or a later one, may pop the far unit's
        token, which delays nothing. A no-op, the last resort, comes after all that compute has to do so far.
        """
        candidates = self.of_unit[Unit.COMPUTE]
        position = bisect_left(candidates, needed, key=lambda number: self.done[number][far])
        if position < len(candidates):
            return candidates[position]
        # Tokens of a queue are popped in the order in which they are pushed.
        first = max(needed, self.last_taken[far], anyway - 1)
        position = bisect_right(candidates, first)
        if position < len(candidates):
            taker = candidates[position]
            self._token(far, needed, Unit.COMPUTE, taker)
            for number in candidates[position:]:
                self.done[number] = _later(self.done[number], self.done[needed])
            return taker
        waits = [NONE] * len(UNITS)
        waits[far] = needed
        return self._append(_no_op(), label, Unit.COMPUTE, waits)


def _later(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(a, b) for a, b in zip(one, other, strict=True))


def _no_op() -> Instruction:
    """A no-op of compute, a LOAD of no micro-ops: it starts when the unit is drained."""
    return Load(MemoryType.UOP, 0, 0, 0, 0, 0)
