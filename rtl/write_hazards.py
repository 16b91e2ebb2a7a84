"""Late accumulator writes, of results with a longer latency than others, and their read-after-write hazards."""

from typing import Any

from amaranth import Cat, Module, Mux
from amaranth.hdl import Value
from amaranth.lib import data

from lathe.isa.table import Opcode
from lathe.rtl.stall import delayed

CHECK = 3  # the stage in which indices are checked
WRITING = 4  # the last stages: an accumulator is read, held, combined and written


class LateWrites:
    """The accumulator writes of a pipeline in which results of `opcode` come `steps` cycles later than others.

    `stages` are the pipeline's steps, the one that is issued first, and `targets` their accumulator indices. Late
    writes leave the pipeline at the stage that reads the accumulator, if `keeps`, and enter it there again `steps`
    cycles later. `coming` are all writes after that stage, of the steps that hold, combine and write: whether there is
    one, and its index; the one that is held is late with `holds`, and the one that is combined with `lands`.
    """

    def __init__(
        self, m: Module, opcode: Opcode, steps: int, stages: list[data.View], targets: list[Any], keeps: Value
    ) -> None:
        self.opcode, self.name, self.steps = opcode, opcode.name.lower(), steps
        self.read = len(stages) - WRITING
        reading, here = stages[self.read], targets[self.read]
        writes = reading.valid & reading.writes & keeps
        self.waiting: list[tuple[Value, Value]] = [(writes & reading[self.name], here)]
        for _ in range(steps):
            self.waiting.append(_a_cycle_later(m, *self.waiting[-1]))
        late, late_index = self.waiting[-1]
        (self.holds,) = delayed(m, 1, late)
        (self.lands,) = delayed(m, 1, self.holds)
        now: tuple[Value, Value] = (late | (writes & ~reading[self.name]), Mux(late, late_index, here))
        self.coming: list[tuple[Value, Value]] = []
        for _ in range(WRITING - 1):
            now = _a_cycle_later(m, *now)
            self.coming.append(now)

    def hazard(self, m: Module, stages: list[data.View], targets: list[Any], following: Value) -> Value:
        """Whether the step that is checked is one of the instruction, and reads an accumulator that an earlier step of
        the instruction has not written by then. `following` is the index that the step after it reads.
        """
        before = [
            (step.valid & step.writes & step[self.name], index)
            for step, index in zip(stages[CHECK : self.read + 1], targets[CHECK : self.read + 1], strict=True)
        ]
        before = [*before, *self.waiting[1:]][: self.steps]
        # Compared one cycle ahead, since a fault stops the machine in the same cycle.
        (met,) = delayed(m, 1, Cat(*(writes & (index == following) for writes, index in before)).any(), reset=False)
        step = stages[CHECK]
        return step.valid & step[self.name] & met


def _a_cycle_later(m: Module, writes: Value, index: Value) -> tuple[Value, Value]:
    """A write (whether, and to which index), one cycle later."""
    (later,), (target,) = delayed(m, 1, writes), delayed(m, 1, index, reset=False)
    return later, target
