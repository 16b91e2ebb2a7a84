"""The one port to DRAM: who is granted a read burst when, and when the DRAM serves it (docs/timing.md, "Memory")."""

from typing import Protocol

from lathe.configs import MemoryConfig

# A cycle that never comes: the request of a master that has nothing to request or does not yet know when.
NEVER = 1 << 62

READ, WRITE = 0, 1

FETCH, LOAD, COMPUTE = 0, 1, 2
MASTERS = 3


class ReadPort(Protocol):
    """What a read master needs of the port."""

    @property
    def slot(self) -> int:
        """The first cycle in which a read burst may be granted."""

    @property
    def cycles_per_beat(self) -> int:
        """Cycles that the DRAM needs for a beat."""

    def grant(self, cycle: int, beats: int) -> int:
        """Grant a read burst in `cycle`, at least ``slot``; returns the cycle of its last beat."""


class WritePort(Protocol):
    """What store needs of the port."""

    def serve(self, direction: int, accepted: int, beats: int) -> int:
        """Serve a burst accepted in a cycle, not before those accepted earlier; returns the cycle of its last beat."""


class Port:
    """State of the read arbiter and of the DRAM's servers.

    ``slot`` is the first cycle in which a read burst may be granted: one grant per cycle, and not more than
    ``outstanding_reads`` bursts in flight. ``free`` holds, for reads and for writes, the cycle in which the server
    ends the bursts that it has accepted; both entries move together when the bandwidth is shared.
    """

    def __init__(self, memory: MemoryConfig) -> None:
        self.latency = memory.latency
        self.cycles_per_beat = memory.cycles_per_beat
        self.shared = memory.shared_bandwidth
        self.free = [0, 0]
        self.ends = [-1] * memory.outstanding_reads  # last beats of the latest reads, a ring; the oldest is at position
        self.position = 0
        self.slot = 0
        self.last_master = MASTERS - 1
        self.bursts = [0, 0]
        self.beats = [0, 0]

    def serve(self, direction: int, accepted: int, beats: int) -> int:
        """Serve a burst accepted in a cycle, not before those accepted earlier; returns the cycle of its last beat."""
        start = accepted + self.latency
        if start < self.free[direction]:
            start = self.free[direction]
        end = start + beats * self.cycles_per_beat
        self.free[direction] = end
        if self.shared:
            self.free[1 - direction] = end
        self.bursts[direction] += 1
        self.beats[direction] += beats
        return end

    def grant(self, cycle: int, beats: int) -> int:
        """Grant a read burst in `cycle`, at least ``slot``; returns the cycle of its last beat."""
        end = self.serve(READ, cycle, beats)
        self.ends[self.position] = end
        self.position = (self.position + 1) % len(self.ends)
        self.slot = max(cycle, self.ends[self.position]) + 1
        return end
