"""The DMA engine of load and compute: requests the bursts of one transfer, and knows when its data side is done."""

from collections import deque
from collections.abc import Iterator
from typing import TypeAlias

from lathe.configs.memory import CUT
from lathe.sim.memory_port import NEVER, READ, Port, Watcher
from lathe.sim.transfer import Transfer

Credit: TypeAlias = tuple[int, int, int, int]
"""Equal bursts whose room is not taken back yet: from which cycle on a burst that needs the first one's may be
requested, how much later one that needs the next one's, the beats of each, their number."""


class Reader:
    """Address and data side of one read master. ``request`` is the cycle from which it requests its next burst.

    ``begin`` starts a transfer; ``run`` takes grants until the transfer has no burst left (``request`` is NEVER then)
    or another master may come in between. Afterwards ``last_grant`` and ``last_step`` are the cycles of the last
    burst's grant and of the data side's last step, and ``steps`` is the number of the transfer's steps.
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
        self.place = 0  # of the run that the burst requested next belongs to
        self.left = 0  # bursts of that run
        self.watch: Watcher | None = None
        self.addresses: Iterator[tuple[int, int]]

    def begin(self, instruction: int, transfer: Transfer, start: int, first_step: int) -> None:
        """Start a transfer that reads something: requests when its first burst is cut, steps from `first_step` on."""
        self.instruction, self.transfer = instruction, transfer
        self.last_step = first_step - 1 + transfer.lead
        self.steps = transfer.lead + transfer.behind + transfer.beats
        self.place = 0
        beats, _, self.left = transfer.runs[0]
        self.request, self.used = self.with_room(start + 1 + CUT, self.used + beats)
        if self.watch is not None:
            self.addresses = transfer.bursts(self.bus_shift, self.limit)

    def with_room(self, request: int, used: int) -> tuple[int, int]:
        """The cycle of a request, `request` at the earliest, for which `used` beats are to fit, and how many are used.

        Room that has come back by then is taken back as well, whether it is needed or not.
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
        """Take one grant, and all further ones that fall before the cycle `horizon`; true when the transfer is through.

        The caller knows that this master wins the first grant, and that no other master requests before `horizon`.
        Nothing is done as often in a simulation as a turn of this loop: what ``Port.grant`` does stands in it, and so
        does setting room aside for the next burst, from its grant on or from when the FIFO has room for all of it.
        Equal bursts that the DRAM serves one right behind the other are one turn.
        """
        credits, used, capacity, watch = self.credits, self.used, self.capacity, self.watch
        latency, rate, ends, free = port.latency, port.cycles_per_beat, port.ends, port.free[READ]
        runs, place, left, last_step = self.transfer.runs, self.place, self.left, self.last_step
        beats, behind, _ = runs[place]
        slot, duration = port.slot, beats * rate
        many = port.reads > 1 and watch is None  # or each is granted behind the end of the one before, or looked at
        bursts, moved, before = 0, 0, left  # of whole runs, and what was left of this one
        grant = self.request if self.request > slot else slot
        while True:
            arrived = grant + latency
            if arrived < free:
                arrived = free
            free = arrived = arrived + duration
            step = last_step + beats
            if step <= arrived:
                step = arrived + 1
            count, apart = 1, beats + behind
            if left > 1 and many and grant + 1 < horizon and ends[1] + 1 < horizon:
                count = left
                if used + (left - 1) * beats > capacity:  # only room that is back in time for the second one
                    _, used = self.with_room(grant + 1, used)
                    room = (capacity - used) // beats
                    if room < left:
                        count = room + 1
                if duration > apart:
                    behindhand = step - arrived - 1
                    if not behindhand:
                        apart = duration
                    elif count > behindhand // (duration - apart) + 1:  # steps follow each other until they wait again
                        count = behindhand // (duration - apart) + 1
            if count > 1:
                count, grant = port.grant_equal(grant, arrived, duration, count, horizon)
                free += (count - 1) * duration
                used += (count - 1) * beats
            else:
                ends.append(arrived)
            if watch is not None:
                number = port.beats[READ] + moved + (before - left) * beats
                watch(self.instruction, next(self.addresses)[0], beats, number, arrived)
            credits.append((step + 2, apart, beats, count))
            last_step = step + (count - 1) * apart + behind
            oldest = ends[0]
            slot = (oldest if oldest > grant else grant) + 1
            left -= count
            if not left:
                bursts, moved = bursts + before, moved + before * beats
                place += 1
                if place == len(runs):
                    self.last_grant, request, before = grant, NEVER, 0
                    break
                beats, behind, left = runs[place]
                duration, before = beats * rate, left
            request = grant + 1
            used += beats
            if used > capacity:
                request, used = self.with_room(request, used)
            grant = request if request > slot else slot
            if grant >= horizon:
                break
        self.request, self.used, self.last_step, self.place, self.left = request, used, last_step, place, left
        port.granted(slot, free, bursts + before - left, moved + (before - left) * beats)
        return request == NEVER
