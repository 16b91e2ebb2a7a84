"""Timing of the read DMA engine of load and compute: requests of a transfer's bursts, and the end of its data side."""

from collections import deque
from collections.abc import Iterator
from typing import TypeAlias

from lathe.configs.memory import CUT
from lathe.sim.memory_port import NEVER, READ, Port, Watcher
from lathe.sim.transfer import Transfer

Credit: TypeAlias = tuple[int, int, int, int]
"""Equal bursts whose FIFO space has not been reclaimed: the first cycle of a request that can use the first one's
space, the distance in cycles to the next one's, the beats of each, their number."""


class Reader:
    """Address and data side of one read master. ``request`` is the cycle from which it requests its next burst.

    ``begin`` starts a transfer; ``run`` takes grants until the transfer has no burst left (``request`` is NEVER then)
    or another master may interfere. Afterwards ``last_grant`` and ``last_step`` are the cycles of the last burst's
    grant and of the data side's last busy cycle, and ``steps`` is the number of the transfer's busy cycles.
    """

    def __init__(self, bus_shift: int, burst_beats: int, fifo_beats: int) -> None:
        self.bus_shift = bus_shift
        self.capacity = fifo_beats
        self.limit = min(burst_beats, fifo_beats)
        self.credits: deque[Credit] = deque()
        self.used = 0  # beats of those and of the burst that is requested next
        self.request = NEVER
        self.last_grant = self.last_step = -1
        self.steps = 0
        self.instruction = -1
        self.transfer: Transfer
        self.index = 0  # index of the run of the burst that is requested next
        self.remaining = 0  # remaining bursts of that run
        self.watch: Watcher | None = None
        self.addresses: Iterator[tuple[int, int]]

    def begin(self, instruction: int, transfer: Transfer, start: int, first_step: int) -> None:
        """Start a transfer that reads something: its first burst is cut, then requested; busy from `first_step` on."""
        self.instruction, self.transfer = instruction, transfer
        self.last_step = first_step - 1 + transfer.lead
        self.steps = transfer.lead + transfer.padding + transfer.beats
        self.index = 0
        beats, _, self.remaining = transfer.runs[0]
        self.request, self.used = self.reserve(start + 1 + CUT, self.used + beats)
        if self.watch is not None:
            self.addresses = transfer.bursts(self.bus_shift, self.limit)

    def reserve(self, request: int, used: int) -> tuple[int, int]:
        """The cycle of a request, `request` at the earliest, at which `used` beats fit, and the beats used then.

        Space that has been freed by then is reclaimed as well, whether it is needed or not.
        """
        credits, capacity = self.credits, self.capacity
        while credits:
            free, apart, beats, number = credits[0]
            if free > request:
                if used <= capacity:
                    break
                request = free
            back = 1 if number == 1 else (request - free) // apart + 1
            if back < number:
                credits[0] = (free + back * apart, apart, beats, number - back)
            else:
                back = number
                credits.popleft()
            used -= back * beats
        return request, used

    def run(self, port: Port, horizon: int) -> bool:
        """Take one grant, and all further ones before the cycle `horizon`; true when the transfer is complete.

        The caller ensures that this master wins the first grant, and that no other master requests before `horizon`.
        This loop is the hottest of a simulation: ``Port.grant`` is inlined, as is reserving space for the next burst,
        at its predecessor's grant or when the FIFO has space for all of it. Equal bursts that the DRAM serves back to
        back take one iteration.
        """
        credits, used, capacity, watch = self.credits, self.used, self.capacity, self.watch
        latency, rate, ends, free = port.latency, port.cycles_per_beat, port.ends, port.free[READ]
        runs, index, remaining, last_step = self.transfer.runs, self.index, self.remaining, self.last_step
        beats, padding, _ = runs[index]
        slot, duration = port.slot, beats * rate
        many = port.reads > 1 and watch is None  # else bursts are granted one by one
        bursts, moved, before = 0, 0, remaining  # of complete runs, and the remaining bursts of this one at the start
        grant = self.request if self.request > slot else slot
        while True:
            arrived = grant + latency
            if arrived < free:
                arrived = free
            free = arrived = arrived + duration
            step = last_step + beats
            if step <= arrived:
                step = arrived + 1
            count, apart = 1, beats + padding
            if remaining > 1 and many and grant + 1 < horizon and ends[1] + 1 < horizon:
                count = remaining
                if used + (remaining - 1) * beats > capacity:  # space must be free in time for the second one
                    _, used = self.reserve(grant + 1, used)
                    fitting = (capacity - used) // beats
                    if fitting < remaining:
                        count = fitting + 1
                if duration > apart:
                    delay = step - arrived - 1
                    if not delay:
                        apart = duration
                    elif count > delay // (duration - apart) + 1:  # busy cycles are consecutive until they wait again
                        count = delay // (duration - apart) + 1
            if count > 1:
                count, grant = port.grant_equal(grant, arrived, duration, count, horizon)
                free += (count - 1) * duration
                used += (count - 1) * beats
            else:
                ends.append(arrived)
            if watch is not None:
                number = port.beats[READ] + moved + (before - remaining) * beats
                watch(self.instruction, next(self.addresses)[0], beats, number, arrived)
            credits.append((step + 2, apart, beats, count))
            last_step = step + (count - 1) * apart + padding
            oldest = ends[0]
            slot = (oldest if oldest > grant else grant) + 1
            remaining -= count
            if not remaining:
                bursts, moved = bursts + before, moved + before * beats
                index += 1
                if index == len(runs):
                    self.last_grant, request, before = grant, NEVER, 0
                    break
                beats, padding, remaining = runs[index]
                duration, before = beats * rate, remaining
            request = grant + 1
            used += beats
            if used > capacity:
                request, used = self.reserve(request, used)
            grant = request if request > slot else slot
            if grant >= horizon:
                break
        self.request, self.used, self.last_step, self.index, self.remaining = request, used, last_step, index, remaining
        port.granted(slot, free, bursts + before - remaining, moved + (before - remaining) * beats)
        return request == NEVER
