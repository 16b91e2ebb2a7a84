"""Timing of the compute unit: GEMM and ALU in one pipeline; loads of micro-ops and accumulators prefetch."""

from lathe.isa.table import Kind
from lathe.sim.memory_port import NEVER
from lathe.sim.read_dma import Reader
from lathe.sim.stall_accounting import DRAIN
from lathe.sim.timeline import COMPUTE, Timeline

ISSUE, TRANSFER, FINISH = Kind.ISSUE, Kind.TRANSFER, Kind.FINISH


class ComputeUnit:
    """docs/timing-model.md, "Compute". ``advance`` starts instructions as far as their cycles are known."""

    def __init__(self, timeline: Timeline, reader: Reader, pipeline: int, write_latency: int) -> None:
        self.timeline = timeline
        self.reader = reader
        self.pipeline = pipeline
        self.write_latency = write_latency
        self.next = 0  # index in the command queue
        self.current = -1  # the load whose bursts are being requested
        self.boundary = 0  # the cycle from which the unit is free
        self.load_free = 0  # the cycle from which a load may start
        self.drained = 0
        self.finished = False

    def advance(self) -> bool:
        """Start all instructions that can start; true if there were any."""
        timeline, queue = self.timeline, self.timeline.queues[COMPUTE]
        if self.current >= 0 or self.next == len(queue) or timeline.waits(COMPUTE):
            return False
        progress = False
        while self.current < 0 and self.next < len(queue):
            instruction = queue[self.next]
            command = timeline.commands[instruction]
            kind = command.kind
            more = (DRAIN, self.drained) if kind is FINISH else None
            free = self.load_free if kind is TRANSFER else self.boundary
            start = timeline.begin(instruction, self.boundary, free, more)
            if start == NEVER:
                break
            self.next += 1
            progress = True
            self.load_free = start + 1
            if kind is ISSUE:
                last_step = start + command.steps
                self.done(instruction, last_step, last_step + self.pipeline, command.steps)
            elif kind is FINISH:
                self.finished = True
                self.done(instruction, start + 1, start + 1, 1)
            else:
                transfer = command.transfer
                first_step = max(start + 1, self.drained)
                if transfer.chains:
                    self.current = instruction
                    self.reader.begin(instruction, transfer, start, first_step)
                else:
                    steps = max(1, transfer.lead)
                    self.loaded(instruction, first_step - 1 + steps, steps)
        return progress

    def transferred(self) -> None:
        """The reader has finished the current instruction."""
        assert self.reader.request == NEVER, "the compute unit's reader still has bursts"
        instruction, self.current = self.current, -1
        self.loaded(instruction, self.reader.last_step, self.reader.steps)

    def loaded(self, instruction: int, last_step: int, steps: int) -> None:
        """Record the end of a load, after which the unit is free."""
        end = last_step + self.write_latency
        self.load_free = end
        self.done(instruction, end, end, steps)

    def done(self, instruction: int, free: int, end: int, steps: int) -> None:
        """Record the end of an instruction that leaves the unit free from cycle `free` on."""
        start = self.timeline.start[instruction]
        waited = free - steps - (start if start > self.boundary else self.boundary)
        self.boundary = free
        self.drained = end + 1
        self.timeline.spend(instruction, steps, waited)
        self.timeline.finish(instruction, end)
