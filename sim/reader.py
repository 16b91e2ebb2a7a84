"""The DMA engine of load and compute: requests the bursts of one transfer, and knows when its data side is done."""

from collections import deque
from collections.abc import Iterator

from lathe.configs.memory import CUT
from lathe.sim.port import NEVER, READ, Port, Watcher
from lathe.sim.transfer import Transfer


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
        # Bursts whose room is not given back yet: (cycle of the last beat's step, beats).
        self.credits: deque[tuple[int, int]] = deque()
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
        request, used = start + 1 + CUT, self.used + beats
        while used > self.capacity:
            taken, back = self.credits.popleft()
            used -= back
            if taken + 2 > request:
                request = taken + 2
        self.request, self.used = request, used
        if self.watch is not None:
            self.addresses = transfer.bursts(self.bus_shift, self.limit)

    def run(self, port: Port, horizon: int) -> bool:
        """Take one grant, and all further ones that fall before the cycle `horizon`; true when the transfer is through.

        The caller knows that this master wins the first grant, and that no other master requests before `horizon`.
        Nothing is done as often in a simulation as a turn of this loop: what ``Port.grant`` does stands in it, and so
        does setting room aside for the next burst, from its grant on or from when the FIFO has room for all of it.
        """
        credits, used, capacity, watch = self.credits, self.used, self.capacity, self.watch
        latency, rate, ends, free = port.latency, port.cycles_per_beat, port.ends, port.free[READ]
        runs, place, left, last_step = self.transfer.runs, self.place, self.left, self.last_step
        beats, behind, _ = runs[place]
        slot, duration = port.slot, beats * rate
        bursts, moved, before = 0, 0, left  # of whole runs, and what was left of this one
        grant = self.request if self.request > slot else slot
        while True:
            arrived = grant + latency
            if arrived < free:
                arrived = free
            free = arrived = arrived + duration
            ends.append(arrived)
            oldest = ends[0]
            slot = (oldest if oldest > grant else grant) + 1
            if watch is not None:
                number = port.beats[READ] + moved + (before - left) * beats
                watch(self.instruction, next(self.addresses)[0], beats, number, arrived)
            last_step += beats
            if last_step <= arrived:
                last_step = arrived + 1
            credits.append((last_step, beats))
            last_step += behind
            left -= 1
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
            while used > capacity:
                taken, back = credits.popleft()
                used -= back
                if taken + 2 > request:
                    request = taken + 2
            grant = request if request > slot else slot
            if grant >= horizon:
                break
        self.request, self.used, self.last_step, self.place, self.left = request, used, last_step, place, left
        port.granted(slot, free, bursts + before - left, moved + (before - left) * beats)
        return request == NEVER
