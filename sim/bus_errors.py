"""A memory that answers with errors: to a beat or burst that a test names, and beyond the memory's end."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from lathe.isa import BusError
from lathe.sim.fetch import FetchUnit
from lathe.sim.port import READ, WRITE, Port
from lathe.sim.reader import Reader
from lathe.sim.store import StoreUnit


@dataclass(frozen=True)
class FaultyMemory:
    """What the memory answers with errors: ``error``, and every beat from byte ``end`` on, None for no end."""

    error: BusError | None = None
    end: int | None = None


FAULTLESS = FaultyMemory()


class Answer(NamedTuple):
    """An error answer in ``cycle`` to a burst of ``instruction``, None for fetch's.

    ``outside``: the end of what was to be moved, when it leaves the memory, None for an error that a test names.
    """

    cycle: int
    direction: int
    instruction: int | None
    outside: int | None


@dataclass
class Watch:
    """Looks for error answers among the bursts that the port serves; ``first`` has the first of each direction."""

    memory: FaultyMemory
    bus_shift: int
    first: dict[int, Answer] = field(default_factory=dict)

    def beat(self, address: int, beats: int) -> int:
        """The place of a burst's first beat beyond the memory's end, `beats` when there is none."""
        if self.memory.end is None:
            return beats
        inside = -(-self.memory.end >> self.bus_shift) - (address >> self.bus_shift)
        return min(max(inside, 0), beats)

    def named(self, channel: str, number: int, count: int) -> int:
        """The place of the named error among `count` numbers from `number` on, `count` when it is not there."""
        error = self.memory.error
        if error is None or error.channel != channel:
            return count
        place = error.number - number
        return place if 0 <= place < count else count

    def answer(self, cycle: int, direction: int, instruction: int | None, outside: int | None) -> None:
        """Write an error answer down."""
        if direction not in self.first or cycle < self.first[direction].cycle:
            self.first[direction] = Answer(cycle, direction, instruction, outside)


class WatchedReads:
    """The port as one read master sees it, under a watch.

    ``instruction`` tells whose burst is granted, None for fetch's, and ``end_of`` where its transfer ends.
    """

    def __init__(
        self,
        port: Port,
        watch: Watch,
        master: Reader | FetchUnit,
        instruction: Callable[[], int | None],
        end_of: Callable[[int | None], int],
    ) -> None:
        self.port, self.watch, self.master = port, watch, master
        self.instruction, self.end_of = instruction, end_of
        self.cycles_per_beat = port.cycles_per_beat

    @property
    def slot(self) -> int:
        """See :class:`~lathe.sim.port.Port`."""
        return self.port.slot

    def grant(self, cycle: int, beats: int) -> int:
        """See :class:`~lathe.sim.port.Port`."""
        port, watch = self.port, self.watch
        named = watch.named("read", port.beats[READ], beats)
        outside = watch.beat(self.master.address, beats)
        end = port.grant(cycle, beats)
        wrong = min(named, outside)
        if wrong < beats:
            instruction = self.instruction()
            told = self.end_of(instruction) if outside <= named else None
            watch.answer(end - (beats - 1 - wrong) * port.cycles_per_beat, READ, instruction, told)
        return end


class WatchedWrites:
    """The port as store sees it, under a watch."""

    def __init__(self, port: Port, watch: Watch, store: StoreUnit, end_of: Callable[[int | None], int]) -> None:
        self.port, self.watch, self.store, self.end_of = port, watch, store, end_of

    def serve(self, direction: int, accepted: int, beats: int) -> int:
        """See :class:`~lathe.sim.port.Port`."""
        port, watch, store = self.port, self.watch, self.store
        named = watch.named("write", port.bursts[WRITE], 1) == 0
        outside = watch.beat(store.sending, beats) < beats
        end = port.serve(direction, accepted, beats)
        if named or outside:
            instruction = store.sender
            told = self.end_of(instruction) if outside else None
            watch.answer(end + store.response_latency, WRITE, instruction, told)
        return end
