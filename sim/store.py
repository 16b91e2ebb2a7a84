"""The store unit: packs bursts from the out scratchpad, and sends each when it lies complete in its FIFO."""

from collections import deque
from typing import NamedTuple

from lathe.configs.memory import CUT, PACK
from lathe.isa.stall import StallCause
from lathe.sim.port import NEVER, WRITE, WritePort
from lathe.sim.timeline import STORE, Timeline
from lathe.sim.transfer import burst_end


class StreamWrite(NamedTuple):
    """A burst that touches the stream itself: when that is noticed, whose it is, and the first byte that it touches."""

    cycle: int
    instruction: int
    address: int


class StoreUnit:
    """docs/timing.md, "Store". ``request`` is the cycle in which the oldest packed burst's address is accepted.

    ``stream`` are the bytes [first, end) that the stream lies in, ``stream_write`` the first burst that touches them.

    ``advance`` starts instructions and packs bursts as far as their cycles are known; ``send`` is told that the burst
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
        self.next = 0  # place in the command queue
        self.packing = -1  # the instruction whose bursts are being packed
        self.boundary = 0
        self.ends: list[int] = []
        # Bursts packed and not yet sent: (cycle in which the address is accepted, beats, last of its store, address).
        self.packed: deque[tuple[int, int, bool, int]] = deque()
        self.sending = 0  # address of the burst that is sent
        self.sent: deque[tuple[int, int]] = deque()  # (cycle of the last beat, beats) of bursts not given back
        self.used = 0
        self.draining: deque[tuple[int, int]] = deque()  # (store, its response), packed but not done, in order
        self.chains_left = self.chain_end = self.address = self.first_step = 0
        self.steps = 0

    @property
    def sender(self) -> int:
        """The instruction whose burst is the next to be sent."""
        return next((instruction for instruction, response in self.draining if response == NEVER), self.packing)

    def advance(self) -> bool:
        """Pack and start what can be; true when something was."""
        progress = False
        while self.pack_burst() if self.packing >= 0 else self.start_next():
            progress = True
        self.request = self.packed[0][0] if self.packed else NEVER
        return progress

    def start_next(self) -> bool:
        """Start the next instruction when its cycle is known."""
        timeline, queue = self.timeline, self.timeline.queues[STORE]
        if self.next == len(queue) or self.next - self.pending >= len(self.ends):
            return False
        instruction = queue[self.next]
        transfer = timeline.commands[instruction].transfer
        conditions = timeline.conditions(instruction)
        if conditions is None:
            return False
        if self.next >= self.pending:
            conditions.append((StallCause.MEMORY, self.ends[self.next - self.pending] + 1))
        start = self.boundary
        for _, met in conditions:
            start = max(start, met)
        timeline.begin(instruction, self.boundary, start, conditions)
        self.next += 1
        if transfer.chains:
            self.packing = instruction
            self.chains_left = transfer.chains
            self.address = transfer.address
            self.chain_end = transfer.address + transfer.chain_bytes
            self.first_step = start + 1 + CUT
            self.steps = 0
        else:
            self.boundary = start + 1
            timeline.spend(instruction, 1, 0)
            self.draining.append((instruction, start + 1))
            self.retire()
        return True

    def pack_burst(self) -> bool:
        """Pack the next burst of the current store when it is known when the FIFO has room for it."""
        shift = self.bus_shift
        stop = burst_end(self.address, self.chain_end, shift, self.limit)
        beats = ((stop - 1) >> shift) - (self.address >> shift) + 1
        first = self.first_step
        while self.used + beats > self.capacity:
            if not self.sent:
                return False
            sent, returned = self.sent.popleft()
            self.used -= returned
            first = self.first_step = max(first, sent + 2)
        self.used += beats
        self.steps += beats
        last = first + beats - 1
        self.first_step = last + 1
        begin, self.address = self.address, stop
        if begin < self.stream[1] and stop > self.stream[0] and self.stream_write is None:
            # Noticed in the cycle after the step of the first beat.
            self.stream_write = StreamWrite(first + 1, self.packing, max(begin, self.stream[0]))
        through = False
        if stop == self.chain_end:
            self.chains_left -= 1
            through = not self.chains_left
            if not through:
                transfer = self.timeline.commands[self.packing].transfer
                self.address = stop - transfer.chain_bytes + transfer.stride_bytes
                self.chain_end = self.address + transfer.chain_bytes
        self.packed.append((last + PACK, beats, through, begin))
        if through:
            self.draining.append((self.packing, NEVER))
            self.timeline.spend(self.packing, self.steps, last - self.timeline.start[self.packing] - self.steps)
            self.boundary = last
            self.packing = -1
        return True

    def send(self, port: WritePort) -> bool:
        """The burst of ``request`` is accepted; true when that ends a store or may let packing go on."""
        accepted, beats, last, self.sending = self.packed.popleft()
        sent = port.serve(WRITE, accepted, beats)
        self.sent.append((sent, beats))
        self.request = self.packed[0][0] if self.packed else NEVER
        if last:
            instruction, _ = self.draining.popleft()
            self.draining.appendleft((instruction, sent + self.response_latency))
            self.retire()
        return last or self.packing >= 0

    def retire(self) -> None:
        """Write down the ends of the oldest stores, in order, as far as their responses are known."""
        while self.draining and self.draining[0][1] != NEVER:
            instruction, response = self.draining.popleft()
            end = max(response, self.ends[-1] + 1) if self.ends else response
            self.ends.append(end)
            self.timeline.finish(instruction, end)
