"""A slow cycle-by-cycle timing model, written from docs/timing-model.md alone: every register of every unit.

It shares no code with the simulator and has no closed forms. In each cycle, all units read the state at the start of
the cycle; their changes take effect in the next cycle.
"""

from collections import Counter, deque
from dataclasses import dataclass

from percycle_memory import Burst, Memory, StoreJob
from transfer_steps import chains_of, cut, steps_of

from lathe.isa import Alu, Finish, Gemm, Load, Rescale, unit_of

QUEUES = {
    ("load", "pop_next"): "compute->load",
    ("load", "push_next"): "load->compute",
    ("compute", "pop_prev"): "load->compute",
    ("compute", "pop_next"): "store->compute",
    ("compute", "push_prev"): "compute->load",
    ("compute", "push_next"): "compute->store",
    ("store", "pop_prev"): "compute->store",
    ("store", "push_prev"): "store->compute",
}
# Latencies of docs/timing-model.md, in cycles.
DECODE = 4
STAGES = 3
WRITE_BACK = 1
PACK = 3
END = 1
# Additional issue cycles of ALU micro-ops; an accumulator operand takes another one.
WAITS = {"MUL": 1}
# The trailing cycles of a RESCALE, and the additional ones on machines with look-up tables.
RESCALE, LOOKUP = 6, 2

TOKENS = ("load->compute", "compute->load", "compute->store", "store->compute")


@dataclass
class Entry:
    """The expected trace entry of one instruction in one unit."""

    start: int = -1
    end: int = -1
    cause: str = "none"
    stalled: int = 0
    waited: int = 0


class PerCycle(Memory):
    def __init__(self, cfg, instructions, insn_addr, tokens):
        super().__init__(cfg)
        self.instructions = instructions
        self.insn_addr = insn_addr
        self.bus = cfg.memory.bus_bits // 8
        self.limit = min(cfg.memory.burst_beats, cfg.timing.dma_fifo_beats)
        self.pipeline = max(cfg.timing.gemm_pipeline, cfg.timing.alu_pipeline) + STAGES
        self.tokens = dict(zip(TOKENS, tokens, strict=True))
        self.pushed = Counter()  # tokens pushed in this cycle
        self.trace = {unit: {} for unit in ("load", "compute", "store", "fetch")}
        self.count = {unit: Counter() for unit in self.trace}
        self.queue = {unit: deque() for unit in ("load", "compute", "store")}
        self.ends = {}  # instruction index -> end cycle, once it is certain
        self.finished = False
        # units
        self.outstanding = {
            "load": deque(),
            "compute": deque(),
        }  # beats of bursts, in the order in which they are taken
        self.issue_left = 0
        self.compute_end = -1  # end of the latest compute instruction, once it is certain; None while a load is active
        self.compute_load = self.load_end = None  # a load that has started, and its end when it is known
        self.compute_current = None
        self.pack_left = 0  # bursts of the active store that are not packed completely
        self.pack_beats = 0  # of the burst being packed
        self.pack_done = 0
        self.pack_job = None
        self.to_send = deque()  # (cycle of acceptance, burst)
        self.store_jobs = deque()  # stores started and not done
        self.last_store_end = -1
        self.waiting = {unit: [0, "none"] for unit in ("load", "compute", "store", "fetch")}
        # fetch
        self.each = max(1, 16 // self.bus)
        self.fetch_limit = min(cfg.memory.burst_beats, max(1, cfg.timing.fetch_fifo_beats // 2))
        stream = (insn_addr, insn_addr + 16 * len(instructions))
        self.requests["fetch"].left.extend(cut([stream], self.bus, self.fetch_limit))
        self.partial = 0
        self.next = 0
        self.skipped = (insn_addr % self.bus) // 16 if self.bus >= 16 else 0
        self.in_beat = self.skipped  # instructions of the beat at the FIFO's head that were dispatched

    # ------------------------------------------------------------------ one cycle

    def run(self, most=2_000_000):
        """Run to the end; returns the number of cycles, or None for a deadlock: no change for a long time."""
        quiet = 0
        patience = 2000 + self.cfg.memory.latency * 4
        for t in range(most):
            self.changed = False
            self.cycle(t)
            done = len(self.ends) == len(self.instructions) and max(self.ends.values(), default=-1) <= t
            if done and self.finished and self.next == len(self.instructions):
                for count in self.count.values():
                    count["empty"] += END
                return t + 1 + END
            quiet = 0 if self.changed else quiet + 1
            if quiet > patience:
                return None
        raise AssertionError("the per-cycle model ran out of cycles")

    def cycle(self, t):
        later = []  # changes that take effect in the next cycle
        granted = self.arbitrate()
        accepted_write = None
        if self.to_send and self.to_send[0][0] == t:
            accepted_write = self.to_send.popleft()[1]
        self.fetch_cycle(t, later)
        self.load_cycle(t, later)
        self.compute_cycle(t, later)
        self.store_cycle(t, later)
        # The DRAM accepts the bursts of this cycle, the read first, and transfers at most one beat per server.
        if granted is not None:
            granted.accepted = t
            self.servers["read"].append(granted)
            self.take_grant(granted, later)
        if accepted_write is not None:
            accepted_write.accepted = t
            self.servers["write"].append(accepted_write)
            self.changed = True
        for server in self.distinct_servers:
            self.serve(t, server, later)
        self.advance_requests(t, granted, later)
        self.end_stores(t)
        for index, end in self.ends.items():
            if end == t:
                self.push(index)
                self.changed = True
        for action in later:
            action()
        for queue, number in self.pushed.items():
            self.tokens[queue] += number
        self.pushed.clear()

    def push(self, index):
        instruction = self.instructions[index]
        unit = unit_of(instruction).name.lower()
        for name in ("push_prev", "push_next"):
            if getattr(instruction, name):
                self.pushed[QUEUES[unit, name]] += 1

    # ------------------------------------------------------------------ fetch

    def fetch_cycle(self, t, later):
        if t == 0:
            self.stall("fetch", "memory")
            return
        if self.next == len(self.instructions):
            self.count["fetch"]["empty"] += 1
            return
        if not self.fetch_fifo:
            self.stall("fetch", "memory")
            return
        if self.partial < self.each - 1:
            self.partial += 1
            self.take_fetch_beat(later)
            return
        unit = unit_of(self.instructions[self.next]).name.lower()
        if len(self.queue[unit]) >= self.cfg.timing.command_queue_depth:
            self.stall("fetch", f"{unit} queue")
            return
        index = self.next
        self.next += 1
        self.partial = 0
        self.count["fetch"]["busy"] += self.bus >= 16
        later.append(lambda: self.queue[unit].append((index, t + 1 + DECODE)))
        self.trace["fetch"][index] = self.begin("fetch", t)
        self.trace["fetch"][index].end = t
        self.changed = True
        self.in_beat += 1
        if self.bus < 16:
            self.take_fetch_beat(later)
        elif self.in_beat == self.bus // 16 or self.next == len(self.instructions):
            self.in_beat = 0
            self.take_fetch_beat(later, counted=True)

    def take_fetch_beat(self, later, counted=False):
        last = self.fetch_fifo.popleft()
        self.changed = True
        if not counted:
            self.count["fetch"]["busy"] += 1
        if last:
            beats = self.fetch_granted.popleft()

            def commit():
                self.requests["fetch"].used -= beats

            later.append(commit)

    # ------------------------------------------------------------------ common to units

    def stall(self, unit, cause):
        self.count[unit][cause] += 1
        if unit == "fetch" and self.next == 0 and self.count[unit].total() == 1:
            return  # cycle 0 belongs to no instruction
        self.waiting[unit][0] += 1
        self.waiting[unit][1] = cause

    def begin(self, unit, t):
        stalled, cause = self.waiting[unit]
        self.waiting[unit] = [0, "none"]
        return Entry(start=t, cause=cause, stalled=stalled)

    def held_up(self, unit, t):
        """The stall cause of a unit's next command, from its queue and tokens; None if neither stalls it."""
        if not self.queue[unit] or self.queue[unit][0][1] > t:
            self.changed |= bool(self.queue[unit])
            return "empty"
        instruction = self.instructions[self.queue[unit][0][0]]
        for name in ("pop_prev", "pop_next"):
            if getattr(instruction, name) and not self.tokens[QUEUES[unit, name]]:
                return QUEUES[unit, name]
        return None

    def take_command(self, unit, t):
        index, _ = self.queue[unit][0]
        instruction = self.instructions[index]
        for name in ("pop_prev", "pop_next"):
            if getattr(instruction, name):
                self.tokens[QUEUES[unit, name]] -= 1
        self.trace[unit][index] = self.begin(unit, t)
        self.changed = True
        return index

    def data_step(self, name, later):
        """One cycle of a data side: "step" (busy), "wait", "last" (the job's last step), or None without a job."""
        dma = self.dma[name]
        if not dma.jobs:
            return None
        _, steps = dma.jobs[0]
        step = steps[0]
        if step in ("beat", "last beat"):
            if not dma.fifo:
                return "wait"
            dma.fifo -= 1
            if step == "last beat":
                self.give_back(dma, later)
        steps.popleft()
        self.changed = True
        return "step" if steps else "last"

    def give_back(self, dma, later):
        # The granted bursts are taken in order, so the beats to reclaim are those of the oldest one.
        beats = self.outstanding[dma.name].popleft()

        def commit():
            dma.requests.used -= beats

        later.append(commit)

    def start_transfer(self, name, index, later):
        instruction = self.instructions[index]
        dma = self.dma[name]
        steps = deque(steps_of(self.cfg, instruction, self.bus, self.limit))
        bursts = cut(chains_of(self.cfg, instruction)[0], self.bus, self.limit)
        self.outstanding[name].extend(bursts)

        def commit():
            dma.jobs.append((index, steps))
            dma.requests.left.extend(bursts)

        later.append(commit)

    # ------------------------------------------------------------------ load

    def load_cycle(self, t, later):
        dma = self.dma["load"]
        idle_address, under_way = dma.requests.idle, len(dma.jobs)
        outcome = self.data_step("load", later)
        left = under_way
        if outcome in ("step", "last"):
            self.count["load"]["busy"] += 1
        elif outcome == "wait":
            self.count["load"]["memory"] += 1
            self.trace["load"][dma.jobs[0][0]].waited += 1
        if outcome == "last":
            index, _ = dma.jobs[0]
            self.finish("load", index, t + self.cfg.timing.write_latency)
            later.append(dma.jobs.popleft)
            left -= 1
        cause = self.held_up("load", t)
        if cause is None and under_way >= self.cfg.timing.dma_pending:
            cause = "memory"
        if cause is None and idle_address:
            index = self.take_command("load", t)
            later.append(self.queue["load"].popleft)
            self.start_transfer("load", index, later)
        elif not left:
            assert cause is not None
            self.stall("load", cause)

    def finish(self, unit, index, end):
        self.trace[unit][index].end = end
        self.ends[index] = end

    # ------------------------------------------------------------------ compute

    def compute_cycle(self, t, later):
        """Advance the issuing instruction and a prefetching load, whose data wait for all earlier instructions."""
        dma = self.dma["compute"]
        if self.issue_left:
            self.issue_left -= 1
            self.count["compute"]["busy"] += 1
            self.changed = True
            if not self.issue_left:
                index = self.compute_current
                pipeline = 0 if isinstance(self.instructions[index], Finish) else self.pipeline
                self.finish("compute", index, t + pipeline)
                self.compute_end = t + pipeline
                self.compute_current = None
        elif self.compute_load is not None:
            outcome = self.data_step("compute", later) if self.load_end is None and t > self.compute_end else "wait"
            if outcome in ("step", "last"):
                self.count["compute"]["busy"] += 1
            else:
                self.count["compute"]["memory"] += 1
                self.trace["compute"][self.compute_load].waited += 1
                self.changed = True
            if outcome == "last":
                later.append(dma.jobs.popleft)
                self.load_end = t + WRITE_BACK + self.cfg.timing.write_latency
                self.finish("compute", self.compute_load, self.load_end)
            if self.load_end is not None and t >= self.load_end:
                self.compute_end = self.load_end
                self.compute_load = None
        if self.compute_load is not None:
            return
        busy = self.compute_current is not None
        cause = self.held_up("compute", t)
        instruction = None if cause is not None else self.instructions[self.queue["compute"][0][0]]
        if busy and not isinstance(instruction, Load):
            return
        if isinstance(instruction, Finish) and t <= self.compute_end:
            cause = "drain"
        if cause is not None:
            self.stall("compute", cause)
            return
        index = self.take_command("compute", t)
        later.append(self.queue["compute"].popleft)
        if isinstance(instruction, Load):
            self.compute_load, self.load_end = index, None
            self.start_transfer("compute", index, later)
        else:
            self.compute_current = index
            self.issue_left = self.issue_steps(instruction)
            self.finished |= isinstance(instruction, Finish)

    def issue_steps(self, instruction):
        if isinstance(instruction, Finish):
            return 1
        executions = instruction.iter_out * instruction.iter_in * max(0, instruction.uop_end - instruction.uop_bgn)
        if isinstance(instruction, Alu):
            executions *= 1 + (not instruction.use_imm) + WAITS.get(instruction.alu_opcode.name, 0)
        if isinstance(instruction, Rescale) and executions:
            executions *= 1 + instruction.add
            executions += RESCALE + LOOKUP * ("lookup" in self.cfg.extensions)
        assert isinstance(instruction, Gemm | Alu | Rescale)
        return max(1, executions)

    # ------------------------------------------------------------------ store

    def store_cycle(self, t, later):
        under_way = len(self.store_jobs)
        if self.pack_job is not None:
            if not self.pack_left:  # the single busy cycle of an empty store
                self.count["store"]["busy"] += 1
                self.pack_job = None
                self.changed = True
            elif not self.pack_done and self.requests["store"].asked is None:
                self.count["store"]["memory"] += 1
                self.trace["store"][self.pack_job.index].waited += 1
            else:
                self.pack_beat(t)
        if self.pack_job is not None:
            return
        cause = self.held_up("store", t)
        if cause is None and under_way >= self.cfg.timing.dma_pending:
            cause = "memory"
        if cause is not None:
            self.stall("store", cause)
            return
        index = self.take_command("store", t)
        later.append(self.queue["store"].popleft)
        bursts = cut(chains_of(self.cfg, self.instructions[index])[0], self.bus, self.limit)
        self.pack_job = StoreJob(index, None if bursts else t + 1)
        later.append(lambda: self.requests["store"].left.extend(bursts))
        self.pack_left = len(bursts)
        self.pack_done = 0
        self.store_jobs.append(self.pack_job)

    def pack_beat(self, t):
        self.count["store"]["busy"] += 1
        self.changed = True
        if self.pack_done == 0:
            self.pack_beats = self.requests["store"].asked
            self.pack_began = True
        self.pack_done += 1
        if self.pack_done == self.pack_beats:
            self.pack_left -= 1
            self.pack_done = 0
            burst = Burst("store", self.pack_beats, store=self.pack_job, last_of_store=not self.pack_left)
            self.to_send.append((t + PACK, burst))
            if not self.pack_left:
                self.pack_job = None

    def end_stores(self, t):
        job = self.store_jobs[0] if self.store_jobs else None
        if job is not None and job.response is not None and job.response <= t and self.last_store_end < t:
            self.finish("store", job.index, t)
            self.last_store_end = t
            self.store_jobs.popleft()
