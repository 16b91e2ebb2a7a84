"""Manual synchronisation: barriers and tokens of the user become waits between instructions, or a deadlock is reported.

An instruction that receives a token before another unit sends it is moved after the sender. Each unit's order and that
of instructions that access the same addresses is preserved. If no such order exists, the machine would deadlock, and
the program is refused.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lathe.isa import Instruction, Unit, instruction_text, unit_of
from lathe.isa.table import TokenQueue
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.schedule_ir.sync import Entry, Marker, Origin
from lathe.scheduler.stream.last_accesses import NONE, LastUses
from lathe.scheduler.stream.memory_effects import EffectsTracker


@dataclass(frozen=True, slots=True)
class SyncedInstruction:
    """An instruction that starts when those at positions ``waits`` are done; with ``barrier``, when all before are.

    ``sends`` and ``receives`` are the user's tokens that are sent after it and received before it.
    """

    instruction: Instruction
    origin: Origin
    waits: tuple[int, ...] = ()
    barrier: bool = False
    sends: tuple[Marker, ...] = ()
    receives: tuple[Marker, ...] = ()


@dataclass(frozen=True)
class Wait:
    """Instruction ``later`` waits for a token that is sent after ``earlier``."""

    earlier: int
    later: int
    sent: Marker
    received: Marker


def synchronised(
    entries: Sequence[tuple[Entry, Origin]], new_footprints: Callable[[], EffectsTracker]
) -> list[SyncedInstruction]:
    """The instructions in an order without deadlock. Raises ScheduleError if tokens don't match, or would deadlock."""
    if not any(isinstance(entry, Marker) for entry, _ in entries):
        return [SyncedInstruction(entry, origin) for entry, origin in entries if not isinstance(entry, Marker)]
    return _SynchronisedStream(entries).steps(new_footprints)


class _SynchronisedStream:
    """The instructions of a stream with manual synchronisation, numbered, and the waits between them."""

    def __init__(self, entries: Sequence[tuple[Entry, Origin]]) -> None:
        self.instructions: list[tuple[Instruction, Origin]] = []
        self.epoch: list[int] = []  # per instruction, the number of barriers before it
        self.sends: dict[int, list[Marker]] = {}
        self.receives: dict[int, list[Marker]] = {}
        sent: dict[TokenQueue, list[tuple[int, Marker]]] = {queue: [] for queue in TokenQueue}
        received: dict[TokenQueue, list[tuple[int, Marker]]] = {queue: [] for queue in TokenQueue}
        last = dict.fromkeys(Unit, NONE)
        waiting: dict[Unit, list[Marker]] = {unit: [] for unit in Unit}
        epoch = 0
        for entry, origin in entries:
            if isinstance(entry, Marker):
                if entry.sync_op.kind == "barrier":
                    epoch += 1
                elif entry.sync_op.kind == "send":
                    sent[entry.queue].append((last[entry.unit], entry))
                    self.sends.setdefault(last[entry.unit], []).append(entry)
                else:
                    waiting[entry.unit].append(entry)
                continue
            unit, number = unit_of(entry), len(self.instructions)
            for marker in waiting[unit]:
                received[marker.queue].append((number, marker))
                self.receives.setdefault(number, []).append(marker)
            waiting[unit].clear()
            last[unit] = number
            self.instructions.append((entry, origin))
            self.epoch.append(epoch)
        for markers in waiting.values():
            for marker in markers:  # the unit has no later instruction that would wait
                received[marker.queue].append((NONE, marker))
        self.waits = [wait for queue in TokenQueue for wait in _matched(queue, sent[queue], received[queue])]

    def steps(self, new_footprints: Callable[[], EffectsTracker]) -> list[SyncedInstruction]:
        order = list(range(len(self.instructions)))
        if any(wait.earlier > wait.later for wait in self.waits):
            order = self._reordered(new_footprints())
        position = {number: n for n, number in enumerate(order)}
        waits: dict[int, list[int]] = {}
        for wait in self.waits:
            waits.setdefault(wait.later, []).append(position[wait.earlier])
        steps: list[SyncedInstruction] = []
        epoch = 0
        for number in order:
            instruction, origin = self.instructions[number]
            steps.append(
                SyncedInstruction(
                    instruction,
                    origin,
                    tuple(waits.get(number, ())),
                    self.epoch[number] > epoch,
                    tuple(self.sends.get(number, ())),
                    tuple(self.receives.get(number, ())),
                )
            )
            epoch = self.epoch[number]
        return steps

    def _reordered(self, footprints: EffectsTracker) -> list[int]:
        """The numbers of the instructions, each after those that it waits for, else as in the stream."""
        needed = self._needed(footprints)
        for wait in self.waits:
            unit = unit_of(self.instructions[wait.earlier][0])
            needed[wait.later][unit] = max(needed[wait.later][unit], wait.earlier)
        of_unit: list[list[int]] = [[] for _ in Unit]
        for number, (instruction, _) in enumerate(self.instructions):
            of_unit[unit_of(instruction)].append(number)
        heads = [0] * len(Unit)
        done = [NONE] * len(Unit)
        order: list[int] = []
        while len(order) < len(self.instructions):
            candidates = [of_unit[unit][heads[unit]] for unit in Unit if heads[unit] < len(of_unit[unit])]
            ready = [each for each in candidates if all(w <= d for w, d in zip(needed[each], done, strict=True))]
            if not ready:
                raise self._deadlock(candidates, needed, done)
            chosen = min(ready)
            unit = unit_of(self.instructions[chosen][0])
            order.append(chosen)
            done[unit] = chosen
            heads[unit] += 1
        return order

    def _needed(self, footprints: EffectsTracker) -> list[list[int]]:
        """Per instruction and unit, the last instruction that it depends on, through memory or a barrier."""
        uses = LastUses(footprints)
        last = [NONE] * len(Unit)
        before = list(last)  # per unit, the last instruction before the last barrier
        epoch = 0
        result: list[list[int]] = []
        for number, (instruction, _) in enumerate(self.instructions):
            unit = unit_of(instruction)
            if self.epoch[number] > epoch:
                epoch, before = self.epoch[number], list(last)
            footprint = footprints.of(instruction)
            needed = [max(a, b) for a, b in zip(uses.needed(footprint, unit), before, strict=True)]
            needed[unit] = NONE  # each unit executes in order
            result.append(needed)
            uses.note(footprint, unit, number)
            last[unit] = number
        return result

    def _deadlock(self, heads: list[int], needed: list[list[int]], done: list[int]) -> ScheduleError:
        """The error that says why none of the units' next instructions (``heads``) can start."""
        next_of = {unit_of(self.instructions[head][0]): head for head in heads}
        stuck = [
            wait
            for wait in self.waits
            if wait.later in heads and wait.earlier > done[unit_of(self.instructions[wait.earlier][0])]
        ]
        wait = min(stuck, key=lambda each: each.later)
        chain: list[str] = []
        current = unit_of(self.instructions[wait.earlier][0])
        seen = {unit_of(self.instructions[wait.later][0])}
        while current not in seen:
            seen.add(current)
            head = next_of[current]
            other = next(unit for unit in Unit if needed[head][unit] > done[unit])
            after = f", which comes after {self._name(next_of[other])}" if needed[head][other] != next_of[other] else ""
            chain.append(f"{self._name(head)} waits for {self._name(needed[head][other])}{after}")
            current = other
        received = wait.received
        return ScheduleError(
            f"Cannot receive a token of {received.queue.arrow} at {received.where}: the units would deadlock. "
            f"{self._name(wait.later)} waits for {self._name(wait.earlier)}, after which {wait.sent.where} sends the "
            f"token, but {', and '.join(chain)}. Receive it later, or send it earlier.",
            kind="legality",
        )

    def _name(self, number: int) -> str:
        instruction, origin = self.instructions[number]
        words = instruction_text(instruction).split()
        return f"{' '.join(words[: 1 if words[0] == 'gemm' else 2])} of {origin}"


def _matched(queue: TokenQueue, sent: list[tuple[int, Marker]], received: list[tuple[int, Marker]]) -> list[Wait]:
    """The waits that the user's tokens of a queue cause. Raises ScheduleError unless as many are received as sent."""
    if len(sent) != len(received):
        raise ScheduleError(
            f"Cannot match the tokens of queue {queue.arrow}: {_counted(sent)} are sent, but {_counted(received)} "
            "received. Send and receive in loops with the same number of iterations.",
            kind="legality",
        )
    ahead = sum({(marker.where, marker.sync_op): marker.sync_op.ahead for _, marker in received}.values())
    pairs = zip(sent[: max(len(sent) - ahead, 0)], received[ahead:], strict=True)
    return [Wait(earlier, later, a, b) for (earlier, a), (later, b) in pairs if NONE not in (earlier, later)]


def _counted(markers: list[tuple[int, Marker]]) -> str:
    by_stage = Counter(marker.where for _, marker in markers)
    counts = ", ".join(f"{count} by {where}" for where, count in by_stage.items())
    return f"{len(markers)}{f' ({counts})' if counts else ''}"
