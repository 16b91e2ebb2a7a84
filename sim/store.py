"""Timing of the store unit: packs bursts from the out scratchpad, and sends each when it is complete in its FIFO.

Equal bursts are packed and sent together: they are packed back to back, and the DRAM serves them so.
"""

from collections import deque
from itertools import islice
from typing import NamedTuple, TypeAlias

from lathe.configs.memory import CUT, PACK
from lathe.sim.memory_port import NEVER, WRITE, Port, Watcher
from lathe.sim.stall_accounting import MEMORY
from lathe.sim.timeline import STORE, Timeline
from lathe.sim.transfer import Transfer


class StreamWrite(NamedTuple):
    """A burst that overlaps the stream: the cycle of detection, its instruction, and its first byte in the stream."""

    cycle: int
    instruction: int
    address: int


Packed: TypeAlias = tuple[int, int, int, int, int, bool]
"""Equal bursts in the FIFO: the cycle in which the first one's address is accepted (each other as many cycles later as
it has beats), the beats of each, their number, their instruction, the index of the first one among its bursts, and
whether the last one is its last."""

Sent: TypeAlias = tuple[int, int, int, int]
"""Equal bursts in flight: the cycle of the first one's last beat, the distance to that of the next one, the beats of
each, their number."""


class StoreUnit:
    """docs/timing-model.md, "Store". ``request`` is the cycle in which the oldest packed burst's address is accepted.

    ``stream`` is the byte range [first, end) of the stream, ``stream_write`` the first burst that overlaps it.

    ``advance`` starts instructions and packs bursts as far as their cycles are known; ``send`` is called when the burst
    of ``request`` is accepted.
    """

    def __init__(
        self,
        timeline: Timeline,
        bus_shift: int,
        burst_beats: int,
        fifo_beats: int,
        pending: int,
        response_latency: int,
        stream: tuple[int, int],
    ) -> None:
        self.timeline = timeline
        self.bus_shift = bus_shift
        self.limit = min(burst_beats, fifo_beats)
        self.capacity = fifo_beats
        self.pending = pending
        self.response_latency = response_latency
        self.stream = stream
        self.stream_write: StreamWrite | None = None
        self.request = NEVER
        self.next = 0  # index in the command queue
        self.packing = -1  # the instruction whose bursts are being packed
        self.boundary = 0
        self.ends: list[int] = []
        self.packed: deque[Packed] = deque()  # packed, not sent yet
        self.sent: deque[Sent] = deque()  # sent, their space not reclaimed yet
        self.used = 0
        self.draining: deque[tuple[int, int]] = deque()  # (store, its response), packed but not done, in order
        self.transfer: Transfer
        self.run = self.bursts_left = 0  # index of the run of the next burst, and remaining bursts of that run
        self.index = 0  # its index among the bursts of its store
        self.overlapping = NEVER  # the index of the first one that overlaps the stream
        self.first_step = 0
        self.watch: Watcher | None = None

    def advance(self) -> bool:
        """Pack and start as far as possible; true when something was started, for which others may wait."""
        started = False
        while True:
            if self.packing >= 0:
                if not self.pack():
                    break
            elif self.start_next():
                started = True
            else:
                break
        self.request = self.packed[0][0] if self.packed else NEVER
        return started

    def start_next(self) -> bool:
        """Start the next instruction when its cycle is known."""
        timeline, queue = self.timeline, self.timeline.queues[STORE]
        if self.next == len(queue) or self.next - self.pending >= len(self.ends) or timeline.waits(STORE):
            return False
        instruction = queue[self.next]
        transfer = timeline.commands[instruction].transfer
        more = None
        if self.next >= self.pending:
            more = MEMORY, self.ends[self.next - self.pending] + 1
        start = timeline.begin(instruction, self.boundary, self.boundary, more)
        if start == NEVER:
            return False
        self.next += 1
        if transfer.chains:
            self.packing, self.transfer = instruction, transfer
            self.run = self.index = 0
            self.bursts_left = transfer.runs[0].number
            self.first_step = start + 1 + CUT
            if transfer.address < self.stream[1] and transfer.end > self.stream[0] and self.stream_write is None:
                self.overlapping = self._overlapping()
        else:
            self.boundary = start + 1
            timeline.spend(instruction, 1, 0)
            self.draining.append((instruction, start + 1))
            self.retire()
        return True

    def pack(self) -> bool:
        """Pack the next equal bursts of the current store, if it is known when the FIFO has space for one."""
        beats = self.transfer.runs[self.run].beats
        if self.used + beats > self.capacity and not self.reclaim(beats):
            return False
        count = (self.capacity - self.used) // beats
        if count > self.bursts_left:
            count = self.bursts_left
        first = self.first_step
        self.used += count * beats
        self.first_step = first + count * beats
        if self.index <= self.overlapping < self.index + count:
            address = list(self.transfer.bursts(self.bus_shift, self.limit))[self.overlapping][0]
            # Detected in the cycle after that of the first beat.
            cycle = first + (self.overlapping - self.index) * beats + 1
            self.stream_write = StreamWrite(cycle, self.packing, max(address, self.stream[0]))
            self.overlapping = NEVER
        self.bursts_left -= count
        if not self.bursts_left:
            self.run += 1
        complete = self.run == len(self.transfer.runs)
        self.packed.append((first + beats - 1 + PACK, beats, count, self.packing, self.index, complete))
        self.index += count
        if complete:
            last, steps = self.first_step - 1, self.transfer.beats
            self.draining.append((self.packing, NEVER))
            self.timeline.spend(self.packing, steps, last - self.timeline.start[self.packing] - steps)
            self.boundary = last
            self.packing = -1
        elif not self.bursts_left:
            self.bursts_left = self.transfer.runs[self.run].number
        return True

    def reclaim(self, beats: int) -> bool:
        """Reclaim the space of sent bursts: for `beats` more beats, and all that is free by then.

        If the space of equal bursts is freed as quickly as it is packed, it is reclaimed for the whole run at once.
        False if the time is not known yet.
        """
        while self.sent:
            end, apart, each, count = self.sent[0]
            together = 0
            if self.used + beats > self.capacity:
                if end + 2 > self.first_step:
                    self.first_step = end + 2
                together = self.bursts_left if apart == each == beats else 1
            back = (self.first_step - 2 - end) // apart + 1
            if back < together:
                back = together
            if back <= 0:
                break
            if back > count:
                back = count
            self.used -= back * each
            if back == count:
                self.sent.popleft()
            else:
                self.sent[0] = (end + back * apart, apart, each, count - back)
        return self.used + beats <= self.capacity

    def _overlapping(self) -> int:
        """The index of the current store's first burst that overlaps the stream."""
        first, end = self.stream
        bursts = enumerate(self.transfer.bursts(self.bus_shift, self.limit))
        return next((index for index, (begin, stop) in bursts if begin < end and stop > first), NEVER)

    def send(self, port: Port, horizon: int) -> bool:
        """Send the packed bursts of ``request`` and its successors that are accepted before the cycle `horizon`.

        True when that ends a store, for which others may wait.
        """
        accepted, beats, count, instruction, index, complete = self.packed[0]
        some = min(count, (horizon - 1 - accepted) // beats + 1)
        apart = beats * port.cycles_per_beat
        sent = port.serve(WRITE, accepted, beats, some)
        if self.watch is not None:
            bursts = self.timeline.commands[instruction].transfer.bursts(self.bus_shift, self.limit)
            for n, (address, _) in enumerate(islice(bursts, index, index + some)):
                self.watch(instruction, address, beats, port.bursts[WRITE] - some + n, sent + n * apart)
        self.sent.append((sent, apart, beats, some))
        if some < count:
            self.packed[0] = (accepted + some * beats, beats, count - some, instruction, index + some, complete)
        else:
            self.packed.popleft()
        self.request = self.packed[0][0] if self.packed else NEVER
        last = complete and some == count
        if last:
            self.draining.popleft()
            self.draining.appendleft((instruction, sent + (some - 1) * apart + self.response_latency))
            self.retire()
        return last

    def retire(self) -> None:
        """Record the ends of the oldest stores, in order, as far as their responses are known."""
        while self.draining and self.draining[0][1] != NEVER:
            instruction, response = self.draining.popleft()
            end = max(response, self.ends[-1] + 1) if self.ends else response
            self.ends.append(end)
            self.timeline.finish(instruction, end)
