"""Timing of the load unit: an address side that runs ahead, and a data side that writes scratchpads, both in order."""

from lathe.sim.memory_port import NEVER
from lathe.sim.read_dma import Reader
from lathe.sim.stall_accounting import MEMORY
from lathe.sim.timeline import LOAD, Timeline


class LoadUnit:
    """docs/timing-model.md, "Load". ``advance`` starts instructions as far as their cycles are known."""

    def __init__(self, timeline: Timeline, reader: Reader, pending: int, write_latency: int) -> None:
        self.timeline = timeline
        self.reader = reader
        self.pending = pending
        self.write_latency = write_latency
        self.next = 0  # index in the command queue
        self.current = -1  # the instruction whose bursts are being requested
        self.address_free = 0
        self.last_steps: list[int] = []
        self.boundary = 0  # the first cycle that belongs to no instruction started so far

    def advance(self) -> bool:
        """Start all instructions that can start; true if there were any."""
        timeline, queue = self.timeline, self.timeline.queues[LOAD]
        if self.current >= 0 or self.next == len(queue) or timeline.waits(LOAD):
            return False
        progress = False
        while self.current < 0 and self.next < len(queue):
            instruction = queue[self.next]
            more = None
            if self.next >= self.pending:
                more = MEMORY, self.last_steps[self.next - self.pending] + 1
            boundary = self.boundary
            start = timeline.begin(instruction, boundary, self.address_free, more)
            if start == NEVER:
                break
            self.next += 1
            transfer = timeline.commands[instruction].transfer
            first_step = max(start, boundary) + 1
            if transfer.chains:
                self.current = instruction
                self.reader.begin(instruction, transfer, start, first_step)
            else:
                self.address_free = start + 1
                steps = max(1, transfer.lead)
                self.done(instruction, first_step - 1 + steps, steps)
            progress = True
        return progress

    def transferred(self) -> None:
        """The reader has finished the current instruction."""
        assert self.reader.request == NEVER, "the load unit's reader still has bursts"
        self.address_free = self.reader.last_grant + 1
        instruction, self.current = self.current, -1
        self.done(instruction, self.reader.last_step, self.reader.steps)

    def done(self, instruction: int, last_step: int, steps: int) -> None:
        """Record the end of an instruction whose data side ends with `last_step`."""
        start = self.timeline.start[instruction]
        waited = last_step - steps - (start if start > self.boundary else self.boundary)
        self.last_steps.append(last_step)
        self.boundary = last_step
        self.timeline.spend(instruction, steps, waited)
        self.timeline.finish(instruction, last_step + self.write_latency)
