"""The activity signals of a unit, and its interface to the command queue and the token queues."""

from amaranth import Cat, Module, Signal
from amaranth.hdl import Value

from lathe.configs.encoding import INSTRUCTION_BITS
from lathe.configs.memory import DECODE_STAGES
from lathe.isa.stall import CAUSES_OF
from lathe.isa.stall import TRACK_NAMES as UNIT_NAMES
from lathe.isa.stall import StallCause as Cause
from lathe.isa.table import QUEUE_OF, TokenQueue, Unit

# Causes and tracks are defined in lathe.isa; RTL modules import them from here.
__all__ = ["CAUSES_OF", "CAUSE_BITS", "CAUSE_NAMES", "UNIT_NAMES", "Activity", "Cause", "CommandPort", "delayed"]

CAUSE_BITS = 4
CAUSE_NAMES = {cause: str(cause) for cause in Cause}


class Activity:
    """What a unit does in a cycle, for counters and traces; see docs/timing-model.md.

    `start` and `end` of an instruction; `busy`: a step of work; `stall` with `cause`: waiting to start an instruction;
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
    """The interface of a unit to its command queue and to the token queues.

    `word` is the next command while `valid`; `take` removes it. `words` are the commands that are being decoded, from
    the queue's head to `word`; with `advance[n]`, stage n moves `words[n]` to `words[n + 1]`. `tokens` has a bit for
    each token queue that is not empty.
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

    def stall_cause(
        self, m: Module, pop_prev: Signal, pop_next: Signal, others: list[tuple[Cause, Value]]
    ) -> tuple[Signal, Value]:
        """The first cause that stalls the next command, NONE when it can start; and whether there is one.

        `others` are further causes and their conditions, by falling priority. Drives `pops` when the command is taken.
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
    """The values `cycles` cycles later. Without `reset`, for data that are only used together with a valid flag."""
    current = list(values)
    for _ in range(cycles):
        stage = [Signal(value.shape(), name="later", reset_less=not reset) for value in current]
        m.d.sync += [later.eq(value) for later, value in zip(stage, current, strict=True)]
        current = list(stage)
    return current
