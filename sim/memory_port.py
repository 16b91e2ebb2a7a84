"""Model of the shared DRAM port: arbitration of read bursts, and their service (docs/timing-model.md, "Memory")."""

from collections import deque
from collections.abc import Callable

from lathe.configs import MemoryConfig

# A cycle that never comes: the request cycle of a master without a request, or not known yet.
NEVER = 1 << 62

READ, WRITE = 0, 1

FETCH, LOAD, COMPUTE = 0, 1, 2
MASTERS = 3


Watcher = Callable[[int | None, int, int, int, int], None]
"""Observer of each burst that is served: its instruction (None: fetch), first byte and beats, the number of beats (of
reads) or bursts (of writes) served before it, and the cycle of its last beat."""


class Port:
    """The read arbiter and the DRAM's servers.

    ``slot`` is the first cycle in which a read burst may be granted: one grant per cycle, with at most
    ``outstanding_reads`` bursts in flight. ``free`` holds, for reads and for writes, the cycle in which the server
    finishes the bursts that it has accepted; both entries change together when the bandwidth is shared.
    """

    def __init__(self, memory: MemoryConfig) -> None:
        self.latency = memory.latency
        self.cycles_per_beat = memory.cycles_per_beat
        self.shared = memory.shared_bandwidth
        self.free = [0, 0]
        self.reads = memory.outstanding_reads
        self.ends = deque([-1] * self.reads, self.reads)  # last beats of the latest reads
        self.slot = 0
        self.last_master = MASTERS - 1
        self.bursts = [0, 0]
        self.beats = [0, 0]

    def serve(self, direction: int, accepted: int, beats: int, count: int = 1) -> int:
        """Serve a burst accepted in a cycle, after those accepted earlier; returns the cycle of its last beat.

        With `count` > 1, serve equal bursts, each accepted `beats` cycles after the previous one, and return the cycle
        of the first one's last beat. The DRAM is never idle between them: each ends `beats` · `cycles_per_beat` after
        the previous.
        """
        start = accepted + self.latency
        if start < self.free[direction]:
            start = self.free[direction]
        duration = beats * self.cycles_per_beat
        end = start + count * duration
        self.free[direction] = end
        if self.shared:
            self.free[1 - direction] = end
        self.bursts[direction] += count
        self.beats[direction] += count * beats
        return start + duration

    def grant(self, cycle: int, beats: int) -> int:
        """Grant a read burst in `cycle`, which is at least ``slot``; returns the cycle of its last beat."""
        end = self.serve(READ, cycle, beats)
        self.ends.append(end)
        self.slot = max(cycle, self.ends[0]) + 1
        return end

    def grant_equal(self, cycle: int, end: int, duration: int, number: int, horizon: int) -> tuple[int, int]:
        """Grant as many equal read bursts as the DRAM serves back to back, and record their ends.

        The first of at most `number` is granted in `cycle` and served until `end`, each for `duration` cycles; each
        later one is granted before the cycle `horizon`, as early as the port allows. Returns their number, and the
        cycle of the last grant.
        """
        # Burst j is granted j cycles after the first one at the earliest, and after the end of the burst `flying`
        # places before it; the DRAM stays busy if that is early enough before the end of burst j - 1.
        ends, flying, latency = self.ends, self.reads, self.latency
        if number > flying and (flying - 1) * duration <= latency:
            number = flying
        if latency >= duration:
            for j in range(1, min(flying, number)):
                if ends[j] + 1 + latency > end + (j - 1) * duration:
                    number = j
                    break
        last = number - 1
        while last:
            granted = (ends[last] if last < flying else end + (last - flying) * duration) + 1
            if granted < cycle + last:
                granted = cycle + last
            if granted < horizon:
                break
            last = min(last - 1, max(flying - 1, (horizon - 2 - end) // duration + flying))
        else:
            granted = cycle
        begin = last + 1 - flying if last >= flying else 0
        ends.extend(range(end + begin * duration, end + last * duration + 1, duration))
        return last + 1, granted

    def granted(self, slot: int, free: int, bursts: int, beats: int) -> None:
        """Record read bursts that a caller has granted and served in bulk, and whose ends it has put into ``ends``."""
        self.slot = slot
        self.free[READ] = free
        if self.shared:
            self.free[WRITE] = free
        self.bursts[READ] += bursts
        self.beats[READ] += beats
