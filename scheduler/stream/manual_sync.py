"""A stream with barriers and tokens by hand as steps that each wait for earlier ones, or why there is no such order.

Without signals the steps are the stream. A token that is received before it is sent moves what waits for it back,
behind what sends it, as far as dependences allow: the order of each unit, and of instructions that touch the same
cells, stays. If there is no such order, the machine would wait for ever, and the program is refused.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lathe.isa import Instruction, Unit, instruction_text, unit_of
from lathe.isa.table import TokenQueue
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.schedule_ir.sync import Entry, Marker, Origin
from lathe.scheduler.stream.last_accesses import NONE, LastUses
from lathe.scheduler.stream.memory_effects import Footprints


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction that begins when the steps ``waits`` are done; behind a ``barrier``, when all steps before are.

    ``sends`` and ``receives`` are the tokens by hand that come after and before it.
    """

    instruction: Instruction
    origin: Origin
    waits: tuple[int, ...] = ()
    barrier: bool = False
    sends: tuple[Marker, ...] = ()
    receives: tuple[Marker, ...] = ()


@dataclass(frozen=True)
class Wait:
    """Instruction ``later`` waits for a token that ``earlier`` sends."""

    earlier: int
    later: int
    sent: Marker
    received: Marker


def steps_of(entries: Sequence[tuple[Entry, Origin]], new_footprints: Callable[[], Footprints]) -> list[Step]:
    """The steps of a stream. Raises ScheduleError for tokens that do not match, or that are waited for for ever."""
    if not any(isinstance(entry, Marker) for entry, _ in entries):
        return [Step(entry, origin) for entry, origin in entries if not isinstance(entry, Marker)]
    return _Signalled(entries).steps(new_footprints)


class _Signalled:
    """The instructions of a stream, numbered, and the waits between them."""

    def __init__(self, entries: Sequence[tuple[Entry, Origin]]) -> None:
        self.instructions: list[tuple[Instruction, Origin]] = []
        self.epoch: list[int] = []  # per instruction, how many barriers are before it
        self.sends: dict[int, list[Marker]] = {}
        self.receives: dict[int, list[Marker]] = {}
        sent: dict[TokenQueue, list[tuple[int, Marker]]] = {queue: [] for queue in TokenQueue}
        received: dict[TokenQueue, list[tuple[int, Marker]]] = {queue: [] for queue in TokenQueue}
        last = dict.fromkeys(Unit, NONE)
        waiting: dict[Unit, list[Marker]] = {unit: [] for unit in Unit}
        epoch = 0
        for entry, origin in entries:
            if isinstance(entry, Marker):
                if entry.signal.kind == "barrier":
                    epoch += 1
                elif entry.signal.kind == "send":
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
        for left in waiting.values():
            for marker in left:  # nothing comes after: there is nothing that would wait
                received[marker.queue].append((NONE, marker))
        self.waits = [wait for queue in TokenQueue for wait in _matched(queue, sent[queue], received[queue])]

    def steps(self, new_footprints: Callable[[], Footprints]) -> list[Step]:
        order = list(range(len(self.instructions)))
        if any(wait.earlier > wait.later for wait in self.waits):
            order = self._reordered(new_footprints())
        place = {number: position for position, number in enumerate(order)}
        waits: dict[int, list[int]] = {}
        for wait in self.waits:
            waits.setdefault(wait.later, []).append(place[wait.earlier])
        steps: list[Step] = []
        epoch = 0
        for number in order:
            instruction, origin = self.instructions[number]
            steps.append(
                Step(
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

    def _reordered(self, footprints: Footprints) -> list[int]:
        """The instructions in an order in which each wait is for an earlier one, near to that of the stream."""
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
                raise self._waits_for_ever(candidates, needed, done)
            chosen = min(ready)
            unit = unit_of(self.instructions[chosen][0])
            order.append(chosen)
            done[unit] = chosen
            heads[unit] += 1
        return order

    def _needed(self, footprints: Footprints) -> list[list[int]]:
        """Per instruction and unit, the last instruction that must be done before, but for tokens by hand."""
        uses = LastUses(footprints)
        last = [NONE] * len(Unit)
        before = list(last)  # what was last when the barrier came
        epoch = 0
        result: list[list[int]] = []
        for number, (instruction, _) in enumerate(self.instructions):
            unit = unit_of(instruction)
            if self.epoch[number] > epoch:
                epoch, before = self.epoch[number], list(last)
            footprint = footprints.of(instruction)
            needed = [max(a, b) for a, b in zip(uses.needed(footprint, unit), before, strict=True)]
            needed[unit] = NONE  # in order anyway
            result.append(needed)
            uses.note(footprint, unit, number)
            last[unit] = number
        return result

    def _waits_for_ever(self, heads: list[int], needed: list[list[int]], done: list[int]) -> ScheduleError:
        """Why none of the instructions that come next can begin."""
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
            behind = f", behind {self._name(next_of[other])}" if needed[head][other] != next_of[other] else ""
            chain.append(f"{self._name(head)} waits for {self._name(needed[head][other])}{behind}")
            current = other
        received = wait.received
        return ScheduleError(
            f"token of {received.queue.arrow} that stage {received.where} receives must come, not be waited for for "
            f"ever: {self._name(wait.later)} waits for {self._name(wait.earlier)}, behind which {wait.sent.where} "
            f"sends it, but {', and '.join(chain)}. Receive later, or send earlier.",
            kind="legality",
        )

    def _name(self, number: int) -> str:
        instruction, origin = self.instructions[number]
        words = instruction_text(instruction).split()
        return f"{' '.join(words[: 1 if words[0] == 'gemm' else 2])} of {origin}"


def _matched(queue: TokenQueue, sent: list[tuple[int, Marker]], received: list[tuple[int, Marker]]) -> list[Wait]:
    """The waits that the tokens of a queue cause. Raises ScheduleError unless as many are sent as received."""
    if len(sent) != len(received):
        raise ScheduleError(
            f"tokens by hand of queue {queue.arrow} must be received as often as they are sent, not "
            f"{_counted(received)} for {_counted(sent)}. Send and receive at loops of as many iterations.",
            kind="legality",
        )
    ahead = sum({(marker.where, marker.signal): marker.signal.ahead for _, marker in received}.values())
    pairs = zip(sent[: max(len(sent) - ahead, 0)], received[ahead:], strict=True)
    return [Wait(earlier, later, a, b) for (earlier, a), (later, b) in pairs if NONE not in (earlier, later)]


def _counted(markers: list[tuple[int, Marker]]) -> str:
    by_place = Counter(marker.where for _, marker in markers)
    places = ", ".join(f"{count} by {where}" for where, count in by_place.items())
    return f"{len(markers)}{f' ({places})' if places else ''}"
