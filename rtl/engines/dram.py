"""The memory model on the bus, in Python: the DRAM of docs/timing-model.md, or one with random stalls.

`dram.h` is the same for compiled machines; tests/rtl/test_dram.py compares the two, and that of the simulator.
"""

from collections import deque

from lathe.configs import MemoryConfig
from lathe.configs.memory import PAGE_BYTES
from lathe.isa.fault import BusError
from lathe.isa.sparse_memory import PagedMemory
from lathe.rtl.engines.axi_checker import Address, ReadBeat, Response, WriteBeat
from lathe.rtl.engines.launch import BrokenRunError

OKAY, SLAVE_ERROR, DECODE_ERROR = 0, 2, 3


class Bytes:
    """A sparse memory, zero where nothing was written; for accesses of one beat, it is faster than arrays."""

    def __init__(self, memory: PagedMemory) -> None:
        self.pages = {address: bytearray(page.tobytes()) for address, page in memory.pages.items()}

    def read(self, address: int, size: int) -> int:
        """`size` bytes that do not cross a page, as a little-endian number."""
        page = self.pages.get(address & -PAGE_BYTES)
        if page is None:
            return 0
        offset = address % PAGE_BYTES
        return int.from_bytes(page[offset : offset + size], "little")

    def write(self, address: int, size: int, content: int, strobes: int) -> None:
        """Write the bytes of `content` whose strobe is set."""
        page = self.pages.setdefault(address & -PAGE_BYTES, bytearray(PAGE_BYTES))
        offset = address % PAGE_BYTES
        for index in range(size):
            if strobes >> index & 1:
                page[offset + index] = content >> 8 * index & 255

    def paged(self) -> PagedMemory:
        """The memory as arrays."""
        import numpy as np

        memory = PagedMemory()
        for address, page in self.pages.items():
            memory.pages[address] = np.frombuffer(bytes(page), np.uint8).copy()
        return memory


# Probabilities, in tenths, that a channel of a memory with stalls is active in a cycle; each channel of a launch draws
# one. The numbers, and the order of the draws, are those of dram.h: the same seed gives the same stalls.
LUCK = (1, 3, 6, 9)
AR, AW, R, W, B = range(5)


class Draws:
    """Random numbers, the same as in C++: Marsaglia's xorshift."""

    def __init__(self, seed: int) -> None:
        self.state = first_state(seed)

    def draw(self) -> int:
        """The next number."""
        state = self.state
        state ^= state << 13 & MASK
        state ^= state >> 7
        state ^= state << 17 & MASK
        self.state = state
        return state >> 20


def first_state(seed: int) -> int:
    """The initial state for a seed of stalls; never 0, which xorshift would never leave."""
    return (seed + 1) * 0x9E3779B97F4A7C15 & MASK or 1


MASK = (1 << 64) - 1


class Burst:
    """A burst that the memory has accepted: the address of its next beat, and the cycle in which that is due."""

    def __init__(self, address: int, beats: int, number: int, due: int) -> None:
        self.address, self.left, self.id, self.due = address, beats, number, due
        self.failed = False


class Dram:
    """Serves one beat per `cycles_per_beat`, in the order of acceptance.

    With `stalls`, a seed, each channel stalls at random, and read beats of different ids are interleaved, as AXI4
    allows; those of one id stay in order.

    In each cycle, `offer` gives the signals that the memory drives, and `see` takes all signals of the bus; the methods
    after it handle single handshakes.
    """

    def __init__(
        self,
        config: MemoryConfig,
        response_latency: int,
        content: Bytes,
        *,
        memory_end: int | None,
        error: BusError | None,
        stalls: int | None,
    ) -> None:
        self.config, self.content, self.bus = config, content, config.bus_bits // 8
        self.response_latency = response_latency
        self.memory_end, self.error = memory_end, error
        self.random = None if stalls is None else Draws(stalls)
        self.luck = [10 if self.random is None else LUCK[self.random.draw() % len(LUCK)] for _ in range(5)]
        self.reads: deque[Burst] = deque()
        self.writes: deque[Burst] = deque()
        self.responses: deque[tuple[int, bool]] = deque()  # (cycle, failed)
        self.free = [0, 0]
        self.bursts, self.beats = {"read": 0, "write": 0}, {"read": 0, "write": 0}
        self.responded = 0
        self.answering = False
        self.shown: tuple[int, int, int, int] | None = None
        self.source: Burst  # of the beat that is on the bus
        self.latest: Burst | None = None  # that of the previous beat, unless it was the burst's last
        self.interleaved = 0

    def offer(self, t: int) -> tuple[bool, bool, tuple[int, int, int, int] | None, bool, int | None]:
        """AR ready, AW ready, a read beat (id, data, last, response), W ready, a write response, in cycle `t`."""
        lucky = self.lucky
        ar_ready, aw_ready = lucky(AR), lucky(AW)
        if self.shown is None and self.reads and (self.reads[0].due <= t if self.random is None else lucky(R)):
            self.shown = self.beat()
        w_ready = bool(self.writes) and (self.writes[0].due <= t if self.random is None else lucky(W))
        response = None
        if self.answering or (self.responses and self.responses[0][0] <= t and lucky(B)):
            self.answering = True
            failed = self.responses[0][1]
            injected = self.error == BusError("write", self.responded)
            response = SLAVE_ERROR if injected else DECODE_ERROR if failed else OKAY
        return ar_ready, aw_ready, self.shown, w_ready, response

    def see(self, t: int, ar: Address, aw: Address, w: WriteBeat, r: ReadBeat, b: Response) -> None:
        """Handle the signals of cycle `t`, by channel. Raises :class:`BrokenRunError` when write data are missing."""
        if r[0] and r[1]:
            self.taken()
        if w[1]:
            if w[0]:
                self.written(t, *w[2:])
            elif self.random is None:
                raise BrokenRunError(f"the RTL has no data for the write beat of cycle {t}")
        if b[0] and b[1]:
            self.responded_now()
        if ar[0] and ar[1]:
            self.accept(t, "read", ar[2], ar[3] + 1, ar[6])
        if aw[0] and aw[1]:
            self.accept(t, "write", aw[2], aw[3] + 1, aw[6])

    def lucky(self, channel: int) -> bool:
        """Whether a channel is active in this cycle: always, unless there are random stalls."""
        return self.random is None or self.random.draw() % 10 < self.luck[channel]

    def served(self) -> Burst:
        """The burst of the next read beat: the oldest, or with random stalls the oldest of a random id."""
        if self.random is None:
            return self.reads[0]
        oldest: dict[int, Burst] = {}
        for burst in self.reads:
            oldest.setdefault(burst.id, burst)
        return list(oldest.values())[self.random.draw() % len(oldest)]

    def beat(self) -> tuple[int, int, int, int]:
        """The next read beat."""
        burst = self.source = self.served()
        response = OKAY
        if self.error == BusError("read", self.beats["read"]):
            response = SLAVE_ERROR
        elif self.outside(burst.address):
            response = DECODE_ERROR
        return burst.id, self.content.read(burst.address, self.bus), int(burst.left == 1), response

    def outside(self, address: int) -> bool:
        """Whether an address is beyond the end of the memory."""
        return self.memory_end is not None and address >= self.memory_end

    def taken(self) -> None:
        """The read beat on the bus has been accepted."""
        burst = self.source
        self.shown = None
        self.beats["read"] += 1
        self.interleaved += self.latest is not None and self.latest is not burst
        self.advance(self.reads, burst)
        self.latest = burst if burst.left else None

    def written(self, t: int, data: int, strobes: int, last: int) -> None:
        """A write beat has come in cycle `t`."""
        burst = self.writes[0]
        self.beats["write"] += 1
        if self.outside(burst.address):
            burst.failed = True
        else:
            self.content.write(burst.address, self.bus, data, strobes)
        self.advance(self.writes, burst)
        if last:
            self.responses.append((t + self.response_latency, burst.failed))

    def advance(self, queue: deque[Burst], burst: Burst) -> None:
        """Go on to the next beat."""
        burst.left -= 1
        burst.address += self.bus
        burst.due += self.config.cycles_per_beat
        if not burst.left:
            queue.remove(burst)

    def accept(self, t: int, kind: str, address: int, beats: int, number: int) -> None:
        """The address of a burst has been accepted in `t`; of two in one cycle, the read comes first."""
        server = 0 if kind == "read" or self.config.shared_bandwidth else 1
        begin = max(t + self.config.latency, self.free[server])
        self.free[server] = begin + beats * self.config.cycles_per_beat
        queue = self.reads if kind == "read" else self.writes
        queue.append(Burst(address, beats, number, begin + self.config.cycles_per_beat))
        self.bursts[kind] += 1

    def responded_now(self) -> None:
        """The write response has been accepted."""
        self.responses.popleft()
        self.responded += 1
        self.answering = False
