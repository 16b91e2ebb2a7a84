"""What a user lets queues do by hand: barriers, and tokens sent and received; and the stream of a program with them.

A ``Marker`` stands in the stream where a barrier, a send or a receive happens. A token sent by a unit is there when all
that the unit was given before is done; a unit that receives one begins nothing of what it is given later before. The
``k``-th receive of a queue gets what its ``k``-th send gives, or an earlier one where some are to be ahead. So the two
give an order to a pair of instructions, and that is all that they do: tokens between these two are pushed and popped
only where derived ones do not give the same order already.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lathe.isa import Instruction, Unit
from lathe.isa.table import TokenQueue
from lathe.scheduler.schedule_ir.memories import DRAM, UNIT_OF_SCOPE
from lathe.scheduler.schedule_ir.schedule import StageView
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
    """Where an instruction comes from: a stage, the values of the loops outside, and the thread, if there are any.

    ``label`` is the number of its label in the program, ``core`` are the values of loops across cores. ``chunk`` is the
    number of its chunk in the table of what chunks make, -1 for what belongs to none.
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
    """A signal at its place in the stream, sent or received by ``unit``."""

    signal: SyncOp
    unit: Unit
    origin: Origin

    @property
    def queue(self) -> TokenQueue:
        """The queue of a token that is sent or received."""
        return queue_of(self.signal, self.unit)

    @property
    def where(self) -> str:
        """Stage and loop, as a user has named them."""
        axis = self.signal.axis
        return f"{self.origin.stage}{f' at loop {axis.name}' if axis is not None else ''}"


Entry = Instruction | Marker


def queue_of(signal: SyncOp, unit: Unit) -> TokenQueue:
    """The queue of a token that a unit sends or receives."""
    other = UNITS[signal.other]
    return QUEUES[(unit, other) if signal.kind == "send" else (other, unit)]


def tag_of(signal: SyncOp) -> str:
    """A signal as the order of loops shows it."""
    what = {"barrier": "barrier_at", "send": f"send {signal.other}", "receive": f"receive {signal.other}"}[signal.kind]
    return what if signal.axis is None else f"{what} at {signal.axis.name}"


def unit_of_stage(stage: StageView) -> Unit:
    """The unit whose instructions make a stage's values, as ``build`` completes it."""
    state = stage.state
    place = state.attachment
    part = place is not None and place.region == "box" and not place.loops
    if part and state.scope == DRAM and not set(state.tensors) & set(stage.schedule.outputs):
        return Unit.COMPUTE
    return UNIT_OF_SCOPE[state.scope]
