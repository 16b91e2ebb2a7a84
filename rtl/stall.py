"""What a unit tells of each cycle, and its end of the command and token queues."""

from amaranth import Cat, Module, Signal
from amaranth.hdl import Value

from lathe.configs.encoding import INSTRUCTION_BITS
from lathe.configs.memory import DECODE_STAGES
from lathe.isa.stall import CAUSES_OF
from lathe.isa.stall import TRACK_NAMES as UNIT_NAMES
from lathe.isa.stall import StallCause as Cause
from lathe.isa.table import QUEUE_OF, TokenQueue, Unit

# The causes and tracks themselves are the instruction set's; the hardware's modules find them here.
__all__ = ["CAUSES_OF", "CAUSE_BITS", "CAUSE_NAMES", "UNIT_NAMES", "Activity", "Cause", "CommandPort", "delayed"]

CAUSE_BITS = 4
CAUSE_NAMES = {cause: str(cause) for cause in Cause}


class Activity:
    """What a unit does in a cycle, for counters and traces; see docs/timing-model.md.

    `start` and `end` of an instruction; `busy`: a step; `stall` with `cause`: waiting for an instruction to start;
    `wait`: waiting for the memory within an instruction; `retire`: the last step of an instruction.
    """

    def __init__(self) -> None:
        self.start = Signal()
        self.end = Signal()
        self.busy = Signal()
        self.stall = Signal()
        self.cause = Signal(CAUSE_BITS)
        self.wait = Signal()
        self.retire = Signal()


class CommandPort:
    """A unit's end of its command queue and of the token queues.

    `word` is the command that the unit can start while `valid`; `take` takes it. `words` are those that are being
    decoded, the queue's head first and `word` last, and stage n moves `words[n]` on to the next when `advance[n]`.
    `tokens` tells of each token queue whether it has one.
    """

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.valid = Signal()
        self.words = [
            Signal(INSTRUCTION_BITS, name=f"word{stage}", reset_less=True) for stage in range(DECODE_STAGES + 1)
        ]
        self.word = self.words[-1]
        self.advance = Signal(DECODE_STAGES)
        self.take = Signal()
        self.tokens = Signal(len(TokenQueue))
        self.pops = Signal(len(TokenQueue))
        self.pushes = Signal(len(TokenQueue))

    def held_up(
        self, m: Module, pop_prev: Signal, pop_next: Signal, others: list[tuple[Cause, Value]]
    ) -> tuple[Signal, Value]:
        """The first cause that holds up the command at the head, NONE when it can start; and whether there is one.

        `others` are further causes and their conditions, least important last. Drives `pops` when it is taken.
        """
        cause = Signal(CAUSE_BITS)
        named = [("pop_prev", pop_prev), ("pop_next", pop_next)]
        known = [(QUEUE_OF[self.unit, name], flag) for name, flag in named if (self.unit, name) in QUEUE_OF]
        conditions: list[tuple[Cause, Value]] = [(Cause.EMPTY, ~self.valid)]
        conditions += [(Cause[queue.name], flag & ~self.tokens[queue]) for queue, flag in known]
        for which, condition in reversed(conditions + others):
            with m.If(condition):
                m.d.comb += cause.eq(which)
        for queue, flag in known:
            m.d.comb += self.pops[queue].eq(self.take & flag)
        return cause, Cat(*(condition for _, condition in conditions + others)).any()

    def push(self, m: Module, end: Value, pushes: Value) -> None:
        """Push tokens at an instruction's end: `pushes` has bit 0 for push_prev and bit 1 for push_next."""
        for bit, name in enumerate(("push_prev", "push_next")):
            queue = QUEUE_OF.get((self.unit, name))
            if queue is not None:
                m.d.comb += self.pushes[queue].eq(end & pushes[bit])


def delayed(m: Module, cycles: int, *values: Value, reset: bool = True) -> list[Value]:
    """The values `cycles` cycles later. Without `reset`, they are data that mean nothing without a flag beside them."""
    found = list(values)
    for _ in range(cycles):
        stage = [Signal(value.shape(), name="later", reset_less=not reset) for value in found]
        m.d.sync += [later.eq(value) for later, value in zip(stage, found, strict=True)]
        found = list(stage)
    return found
