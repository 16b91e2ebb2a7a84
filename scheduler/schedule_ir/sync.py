"""User-specified synchronisation: barriers, tokens to send and receive, and markers for them in the instruction stream.

A ``Marker`` stands in the stream where a barrier, a send or a receive happens. A unit sends a token when all that it
was given before has finished; a unit that receives one starts nothing that it is given later until the token is there.
The ``k``-th receive of a queue gets the token of its ``k``-th send, or of an earlier one if tokens are received ahead.
So the two order one pair of instructions; tokens are pushed and popped for them only if derived tokens do not imply
that order already.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lathe.isa import Instruction, Unit
from lathe.isa.table import TokenQueue
from lathe.scheduler.schedule_ir.memories import DRAM, UNIT_OF_SCOPE
from lathe.scheduler.schedule_ir.schedule_state import StageView
from lathe.scheduler.schedule_ir.stage import SyncOp

UNITS = {unit.name.lower(): unit for unit in Unit}
QUEUES = {
    (Unit.LOAD, Unit.COMPUTE): TokenQueue.LOAD_TO_COMPUTE,
    (Unit.COMPUTE, Unit.LOAD): TokenQueue.COMPUTE_TO_LOAD,
    (Unit.COMPUTE, Unit.STORE): TokenQueue.COMPUTE_TO_STORE,
    (Unit.STORE, Unit.COMPUTE): TokenQueue.STORE_TO_COMPUTE,
}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an instruction comes from: a stage, the values of its outer loops, and the virtual thread, if any.

    ``label`` is the index of its label in the program, ``core`` are the values of loops across cores. ``chunk`` is the
    index of its chunk in the emitted table; -1 if it belongs to none.
    """

    label: int
    stage: str = ""
    offsets: Mapping[str, int] = field(default_factory=dict)
    thread: int | None = None
    core: tuple[int, ...] = ()
    chunk: int = -1

    def __str__(self) -> str:
        at = ", ".join(f"{name}={value}" for name, value in self.offsets.items())
        thread = "" if self.thread is None else f", thread {self.thread}"
        return f"{self.stage}{f' at {at}' if at else ''}{thread}"


@dataclass(frozen=True)
class Marker:
    """A ``SyncOp`` at its position in the stream, executed by ``unit``."""

    sync_op: SyncOp
    unit: Unit
    origin: Origin

    @property
    def queue(self) -> TokenQueue:
        """The queue of the token."""
        return queue_of(self.sync_op, self.unit)

    @property
    def where(self) -> str:
        """Stage and loop, as the user has named them."""
        axis = self.sync_op.axis
        return f"{self.origin.stage}{f' at loop {axis.name}' if axis is not None else ''}"


Entry = Instruction | Marker


def queue_of(signal: SyncOp, unit: Unit) -> TokenQueue:
    """The queue of a token that a unit sends or receives."""
    other = UNITS[signal.other]
    return QUEUES[(unit, other) if signal.kind == "send" else (other, unit)]


def tag_of(signal: SyncOp) -> str:
    """A ``SyncOp`` as the text of a schedule shows it."""
    what = {"barrier": "barrier_at", "send": f"send {signal.other}", "receive": f"receive {signal.other}"}[signal.kind]
    return what if signal.axis is None else f"{what} at {signal.axis.name}"


def unit_of_stage(stage: StageView) -> Unit:
    """The unit whose instructions write a stage's values once ``build`` has lowered the schedule."""
    state = stage.state
    place = state.attachment
    part = place is not None and place.region == "box" and not place.loops
    if part and state.scope == DRAM and not set(state.tensors) & set(stage.schedule.outputs):
        return Unit.COMPUTE
    return UNIT_OF_SCOPE[state.scope]
