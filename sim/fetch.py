"""Timing of the fetch unit: reads the stream in bursts and dispatches instructions to the command queues in order."""

from collections import deque

from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.configs.memory import CUT
from lathe.sim.memory_port import NEVER, READ, Port, Watcher
from lathe.sim.stall_accounting import MEMORY, QUEUE_CAUSES
from lathe.sim.timeline import FETCH, Timeline
from lathe.sim.transfer import burst_end


class FetchUnit:
    """docs/timing-model.md, "Fetch". ``request`` is the cycle from which the next burst is requested, NEVER if unknown.

    ``receive`` takes the grant of that burst; ``advance`` dispatches as far as the cycles are known. ``illegal`` is the
    first instruction that is refused instead of dispatched, -1 for none, and ``refused`` the cycle of that, NEVER while
    unknown. ``stuck``: the cycle from which the latest stalled instruction waited for space in its queue.
    """

    def __init__(
        self,
        timeline: Timeline,
        address: int,
        bus_shift: int,
        burst_beats: int,
        fifo_beats: int,
        queue_depth: int,
        illegal: int,
    ) -> None:
        self.timeline = timeline
        self.illegal = illegal
        self.refused = NEVER
        self.stuck = 0
        self.address = self.origin = address
        self.stream_end = address + INSTRUCTION_BYTES * len(timeline.commands)
        self.bus_shift = bus_shift
        self.limit = min(burst_beats, max(1, fifo_beats // 2))
        self.capacity = fifo_beats
        self.queue_depth = queue_depth
        self.beats_each = max(1, INSTRUCTION_BYTES >> bus_shift)
        self.last = 0  # cycle in which the last beat was taken or the last instruction dispatched
        self.used = 0  # beats granted and not reclaimed, and those of the next burst
        # Bursts that have left the FIFO and are not reclaimed yet: (cycle in which the last beat left, beats).
        self.taken: deque[tuple[int, int]] = deque()
        self.arrived: deque[tuple[int, int, int, int]] = deque()  # see `receive`
        # The next instruction waits until more than `needed` instructions of its unit have started.
        self.starts: list[int] = []
        self.needed = -1
        self.waited = 0  # cycles without a beat, for the instruction that is being assembled
        self.earliest = 1 + CUT  # for the next request, apart from FIFO space
        self.request = NEVER
        self.watch: Watcher | None = None
        self.size = self.beats = 0  # of the burst that is requested next
        self.cut()
        timeline.stalls[FETCH][MEMORY] += 1  # cycle 0

    def cut(self) -> None:
        """Cut the next burst."""
        if self.address < self.stream_end:
            shift = self.bus_shift
            stop = burst_end(self.address, self.stream_end, shift, self.limit)
            self.size = stop - self.address
            self.beats = ((stop - 1) >> shift) - (self.address >> shift) + 1
            self.used += self.beats
            self.make_room()
        else:
            self.request = NEVER

    def make_room(self) -> None:
        """Reclaim the space of bursts that have left the FIFO until the next one fits; the cycle may be unknown."""
        while self.used > self.capacity:
            if not self.taken:
                self.request = NEVER
                return
            left, beats = self.taken.popleft()
            self.used -= beats
            self.earliest = max(self.earliest, left + 2)
        self.request = self.earliest

    def receive(self, port: Port) -> None:
        """Take the grant of the requested burst and record when its beats can be taken.

        ``arrived`` gets, for each instruction that ends in this burst, (first cycle in which its last beat can be
        taken, cycles for taking its beats in this burst, instruction, beats of the burst to reclaim then); a burst that
        ends within an instruction adds its last beats, with instruction -1.
        """
        grant = max(self.request, port.slot)
        end_of_burst = port.grant(grant, self.beats)
        if self.watch is not None:
            self.watch(None, self.address, self.beats, port.beats[READ] - self.beats, end_of_burst)
        served = end_of_burst - self.beats * port.cycles_per_beat
        first_beat = self.address >> self.bus_shift
        stop = self.address + self.size
        each, shift = self.beats_each, self.bus_shift
        instruction = (self.address - self.origin) // INSTRUCTION_BYTES
        before = first_beat  # beats before this one are taken
        entries: list[tuple[int, int, int, int]] = []
        end = self.origin + INSTRUCTION_BYTES * (instruction + 1)
        while end <= stop:
            beat = (end - 1) >> shift
            count = beat + 1 - before if each > 1 else 1
            entries.append((served + (beat - first_beat + 1) * port.cycles_per_beat + 1, count, instruction, 0))
            before = beat + 1
            instruction += 1
            end += INSTRUCTION_BYTES
        if end - INSTRUCTION_BYTES < stop:
            count = ((stop - 1) >> shift) + 1 - before
            entries.append((served + self.beats * port.cycles_per_beat + 1, count, -1, 0))
        ready, count, instruction, _ = entries[-1]
        entries[-1] = (ready, count, instruction, self.beats)
        self.arrived.extend(entries)
        self.address = stop
        self.earliest = grant + 1
        self.cut()

    def advance(self) -> bool:
        """Take beats and dispatch as far as possible; true when an instruction was dispatched."""
        arrived = self.arrived
        if not arrived or len(self.starts) <= self.needed:
            return False
        progress = False
        last, busy = self.last, 0
        while arrived:
            ready, count, instruction, reclaimed = arrived[0]
            cycle = last + count
            waited = 0
            if cycle < ready:
                waited, cycle = ready - cycle, ready
            if instruction >= 0:
                if instruction == self.illegal:
                    self.refused = cycle
                    break
                dispatched = self.dispatch(instruction, cycle, waited)
                if dispatched == NEVER:
                    self.stuck = cycle
                    break
                cycle = dispatched
                progress = True
            else:
                self.waited += waited
            busy += count
            last = cycle
            arrived.popleft()
            if reclaimed:
                self.taken.append((cycle, reclaimed))
                if self.request == NEVER and self.address < self.stream_end:
                    self.make_room()
        self.last = last
        self.timeline.busy[FETCH] += busy
        return progress

    def dispatch(self, instruction: int, cycle: int, waited: int) -> int:
        """Dispatch the instruction, complete from `cycle` on, to its unit's queue; returns the cycle, NEVER if unknown.

        `waited` is the number of cycles without a beat since the previous beat.
        """
        timeline = self.timeline
        unit = timeline.commands[instruction].unit
        queue, starts = timeline.queues[unit], timeline.starts[unit]
        dispatched = cycle
        needed = len(queue) - self.queue_depth
        if needed >= 0:
            if needed >= len(starts):
                self.starts, self.needed = starts, needed
                return NEVER
            dispatched = starts[needed] + 1
            if dispatched < cycle:
                dispatched = cycle
        queue.append(instruction)
        timeline.dispatch[instruction] = dispatched
        if self.waited:
            waited += self.waited
            self.waited = 0
        if waited:
            timeline.stalls[FETCH][MEMORY] += waited
            timeline.dispatch_cause[instruction] = MEMORY
            timeline.dispatch_stalled[instruction] = waited
        if dispatched > cycle:
            timeline.stalls[FETCH][QUEUE_CAUSES[unit]] += dispatched - cycle
            timeline.dispatch_cause[instruction] = QUEUE_CAUSES[unit]
            timeline.dispatch_stalled[instruction] += dispatched - cycle
        return dispatched
