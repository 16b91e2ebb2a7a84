"""The per-cycle model of docs/timing-model.md with a memory that may stall and interleave.

The memory is that of the RTL's testbench. It behaves identically for the same seed, so that every cycle can be
compared. The rules for a bus that stalls are added to the model: a request is held until the bus accepts it; write
addresses wait in a queue of five entries, two of which are reserved.
"""

from collections import Counter, deque

from percycle import END, PACK, PerCycle
from percycle_memory import Burst

from lathe.isa import unit_of
from lathe.isa.sparse_memory import PagedMemory
from lathe.isa.stall import StallCause
from lathe.rtl.engines.dram import Bytes, Dram

MASTERS = ("fetch", "load", "compute")
WRITE_ADDRESSES = 5
KEPT_FREE = 2


class PerCycleOnBus(PerCycle):
    """A :class:`PerCycle` on a bus that stalls; ``stalls`` is that of a launch, a seed or None."""

    def __init__(self, cfg, instructions, insn_addr, tokens, stalls):
        super().__init__(cfg, instructions, insn_addr, tokens)
        timing = cfg.timing
        content = Bytes(PagedMemory())
        self.dram = Dram(cfg.memory, timing.response_latency, content, memory_end=None, error=None, stalls=stalls)
        self.held = None  # the master whose address the bus has not accepted
        self.data = deque()  # packed beats: (cycle from which it is in the FIFO, last of its burst)
        self.open = 0  # bursts whose address is accepted and whose data are not all sent
        self.accepted = deque()  # the same bursts, in order
        self.unanswered = deque()
        # No address is issued while this many bursts have no response: half of the counter's range.
        most = timing.dma_fifo_beats + timing.response_latency
        self.most_unanswered = 1 << ((2 * most + WRITE_ADDRESSES - 1).bit_length() - 1)

    def cycle(self, t):
        later = []
        self.changed = True  # the memory may be idle for any number of cycles
        read_ready, write_ready, beat, data_ready, response = self.dram.offer(t)
        if beat is not None:
            self.dram.taken()
            self.beat(t, Burst(MASTERS[beat[0]], 1), bool(beat[2]), later)
        if data_ready:
            self.send_data(t, later)
        if response is not None:
            self.dram.responded_now()
            self.answer(t, later)
        granted = self.request(read_ready)
        if granted is not None:
            self.dram.accept(t, "read", 0, granted.beats, MASTERS.index(granted.master))
            self.take_grant(granted, later)
        addressed = self.to_send and self.to_send[0][0] <= t and len(self.unanswered) < self.most_unanswered
        if addressed and write_ready:
            _, burst = self.to_send[0]
            self.dram.accept(t, "write", 0, burst.beats, 0)
            later.append(lambda: self.take_write(burst))
        for unit in (self.fetch_cycle, self.load_cycle, self.compute_cycle, self.store_cycle):
            unit(t, later)
        self.advance_requests(t, granted, later)
        self.end_stores(t)
        for index, end in self.ends.items():
            if end == t:
                self.push(index)
        for action in later:
            action()
        for queue, number in self.pushed.items():
            self.tokens[queue] += number
        self.pushed.clear()

    def request(self, ready):
        """The burst that is granted in this cycle."""
        if self.inflight >= self.cfg.memory.outstanding_reads:
            return None
        if self.held is not None:
            master, beats = self.held, self.requests[self.held].asked
        else:
            first = MASTERS.index(self.last_master) + 1
            order = [(each, self.requests[each].asked) for each in MASTERS[first:] + MASTERS[:first]]
            master, beats = next((each for each in order if each[1] is not None), (None, None))
        if master is None:
            return None
        self.last_master = master
        self.held = None if ready else master
        return Burst(master, beats) if ready else None

    def take_write(self, burst):
        self.to_send.popleft()
        self.open += 1
        self.accepted.append(burst)
        self.unanswered.append(burst)

    def send_data(self, t, later):
        """The memory accepts a beat, if there is one."""
        if not self.open or not self.data or self.data[0][0] > t:
            assert self.dram.random is not None, f"no data for the write beat of cycle {t}"
            return
        _, last = self.data.popleft()
        self.dram.written(t, 0, 0, last)
        if last:
            burst = self.accepted.popleft()
            self.give_back_store(burst, later)
            later.append(self.close)

    def close(self):
        self.open -= 1

    def answer(self, t, later):
        burst = self.unanswered[0]
        later.append(self.unanswered.popleft)
        if burst.last_of_store:
            burst.store.response = t

    def store_cycle(self, t, later):
        # A burst starts only if the queue has space for its address.
        queued = sum(cycle <= t for cycle, _ in self.to_send)
        begins = self.pack_job is not None and self.pack_left and self.pack_done == 0
        if begins and queued >= WRITE_ADDRESSES - KEPT_FREE:
            self.count["store"]["memory"] += 1
            self.trace["store"][self.pack_job.index].waited += 1
            return
        super().store_cycle(t, later)

    def pack_beat(self, t):
        super().pack_beat(t)
        self.data.append((t + PACK, self.pack_done == 0))

    def run(self, most=2_000_000):
        for t in range(most):
            self.now = t
            self.cycle(t)
            done = len(self.ends) == len(self.instructions) and max(self.ends.values(), default=-1) <= t
            if done and self.finished and self.next == len(self.instructions):
                return t + 1 + END
        raise AssertionError("the per-cycle model ran out of cycles")


def stalled_time_differences(cfg, stream, stalls, outcome):
    """Differences between model and RTL on a bus that stalls: cycles, and the trace of each instruction."""
    model = PerCycleOnBus(cfg, stream.instructions, stream.insn_addr, stream.tokens, stalls)
    cycles = model.run()
    found = [] if cycles == outcome.cycles else [f"cycles: model {cycles}, RTL {outcome.cycles}"]
    trace = outcome.trace
    for index, instruction in enumerate(stream.instructions):
        unit = unit_of(instruction).name.lower()
        mine, fetched = model.trace[unit][index], model.trace["fetch"][index]
        pairs = {
            "start": (mine.start, trace.start[index]),
            "end": (mine.end, trace.end[index]),
            "cause": (mine.cause, str(StallCause(trace.cause[index]))),
            "stalled": (mine.stalled, trace.stalled[index]),
            "waited": (mine.waited, trace.waited[index]),
            "dispatch": (fetched.start, trace.dispatch[index]),
            "cause of dispatch": (fetched.cause, str(StallCause(trace.dispatch_cause[index]))),
            "wait before dispatch": (fetched.stalled, trace.dispatch_stalled[index]),
        }
        found += [f"{name} of {index}: model {a}, RTL {b}" for name, (a, b) in pairs.items() if a != b]
    for unit, counts in outcome.units.items():
        expected = Counter(model.count[unit])
        expected["empty"] += cycles - expected.total()
        if {name: count for name, count in counts.items() if count} != dict(+expected):
            found.append(f"{unit}: model {dict(+expected)}, RTL {dict(counts)}")
    return found
