"""The memory of the cycle-by-cycle model: burst requests, the arbiter, and the DRAM's servers."""

from collections import deque
from dataclasses import dataclass, field


@dataclass
class Burst:
    master: str
    beats: int
    accepted: int = -1
    store: "StoreJob | None" = None
    last_of_store: bool = False


@dataclass
class StoreJob:
    index: int
    response: int | None = None


@dataclass
class Requests:
    """The bursts (as numbers of beats) to be requested, and the FIFO space reserved for them."""

    places: int
    left: deque = field(default_factory=deque)  # bursts not yet issued by the cutter
    cut: int | None = None
    asked: int | None = None
    used: int = 0

    @property
    def idle(self):
        return not self.left and self.cut is None and self.asked is None

    def cycle(self, taken, later):
        """One cycle, in which the requested burst was granted (``taken``) or not."""
        moves = self.cut is not None and self.used + self.cut <= self.places and (self.asked is None or taken)
        cuts = bool(self.left) and (self.cut is None or moves)

        def commit():
            if moves:
                self.used += self.cut
            if moves or taken:
                self.asked = self.cut if moves else None
            if cuts or moves:
                self.cut = self.left.popleft() if cuts else None

        later.append(commit)
        return moves or cuts


@dataclass
class Dma:
    """Address side, FIFO and data side of a read master."""

    name: str
    requests: Requests
    fifo: int = 0
    jobs: deque = field(default_factory=deque)  # (instruction index, its remaining busy cycles)


class Memory:
    """The memory system between the model's units and their data; the model calls its methods in each cycle."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.changed = False
        self.inflight = 0
        self.last_master = "compute"
        servers = [deque(), deque()]
        self.servers = {"read": servers[0], "write": servers[0] if cfg.memory.shared_bandwidth else servers[1]}
        self.serving = {id(queue): None for queue in servers}  # (burst, beats left, cycles into the beat)
        self.distinct_servers = servers[:1] if cfg.memory.shared_bandwidth else servers
        self.requests = {
            "fetch": Requests(cfg.timing.fetch_fifo_beats),
            **{unit: Requests(cfg.timing.dma_fifo_beats) for unit in ("load", "compute", "store")},
        }
        self.dma = {unit: Dma(unit, self.requests[unit]) for unit in ("load", "compute")}
        self.pack_began = False  # whether store takes its requested burst in this cycle
        self.fetch_fifo = deque()  # True for a burst's last beat
        self.fetch_granted = deque()  # beats of bursts, in order

    def advance_requests(self, t, granted, later):
        master = None if granted is None else granted.master
        for unit, requests in self.requests.items():
            if unit == "fetch" and t == 0:
                continue  # it receives the stream's address in this cycle
            taken = unit == master or (unit == "store" and self.pack_began)
            self.changed |= requests.cycle(taken, later)
        self.pack_began = False

    def arbitrate(self):
        if self.inflight >= self.cfg.memory.outstanding_reads:
            return None
        order = ["fetch", "load", "compute"]
        first = order.index(self.last_master) + 1
        for master in order[first:] + order[:first]:
            beats = self.requests[master].asked
            if beats is not None:
                self.last_master = master
                self.changed = True
                return Burst(master, beats)
        return None

    def take_grant(self, burst, later):
        def commit():
            self.inflight += 1
            if burst.master == "fetch":
                self.fetch_granted.append(burst.beats)

        later.append(commit)

    def serve(self, t, server, later):
        key = id(server)
        if self.serving[key] is not None:
            burst, left, phase = self.serving[key]
            phase += 1
            if phase == self.cfg.memory.cycles_per_beat:
                phase = 0
                left -= 1
                self.beat(t, burst, left == 0, later)
                self.changed = True
            self.serving[key] = (burst, left, phase) if left else None
        if self.serving[key] is None and server and server[0].accepted + self.cfg.memory.latency <= t:
            burst = server.popleft()
            self.serving[key] = (burst, burst.beats, 0)

    def beat(self, t, burst, last, later):
        if burst.master == "store":
            if last:
                self.give_back_store(burst, later)
                if burst.last_of_store:
                    burst.store.response = t + self.cfg.timing.response_latency
            return

        def commit():
            if burst.master == "fetch":
                self.fetch_fifo.append(last)
            else:
                self.dma[burst.master].fifo += 1
            if last:
                self.inflight -= 1

        later.append(commit)

    def give_back_store(self, burst, later):
        def commit():
            self.requests["store"].used -= burst.beats

        later.append(commit)
