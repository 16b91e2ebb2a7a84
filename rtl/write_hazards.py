"""Writes of results that take longer than those of other instructions, and what may not be read before they land."""

from typing import Any

from amaranth import Cat, Module, Mux
from amaranth.hdl import Value
from amaranth.lib import data

from lathe.isa.table import Opcode
from lathe.rtl.stall import delayed

CHECK = 3  # the stage in which indices are checked
WRITING = 4  # the last stages: an accumulator is read, held, combined and written


class LateWrites:
    """The accumulator writes of a pipeline in which results of instruction `opcode` take `steps` longer than others.

    `stages` are its steps from the one that is issued on, and `places` the accumulators that they look at. Late writes
    leave the stage in which the accumulator is read, if `keeps`, and come back as many cycles later, in the same place.
    `coming` are all writes from there on: of steps that hold, combine and write, whether and where; the one
    that is held is late with `holds`, and the one that is combined with `lands`.
    """

    def __init__(
        self, m: Module, opcode: Opcode, steps: int, stages: list[data.View], places: list[Any], keeps: Value
    ) -> None:
        self.opcode, self.name, self.steps = opcode, opcode.name.lower(), steps
        self.read = len(stages) - WRITING
        reading, here = stages[self.read], places[self.read]
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

    def meets(self, m: Module, stages: list[data.View], places: list[Any], following: Value) -> Value:
        """Whether the step that is checked is one of the instruction, and looks at what a step so few places before it
        writes that the write has not landed by then. `following` is what the step behind it looks at.
        """
        before = [
            (step.valid & step.writes & step[self.name], index)
            for step, index in zip(stages[CHECK : self.read + 1], places[CHECK : self.read + 1], strict=True)
        ]
        before = [*before, *self.waiting[1:]][: self.steps]
        # Found out a cycle before, for a fault stops the machine within the cycle.
        (met,) = delayed(m, 1, Cat(*(writes & (index == following) for writes, index in before)).any(), reset=False)
        step = stages[CHECK]
        return step.valid & step[self.name] & met


def _a_cycle_later(m: Module, writes: Value, index: Value) -> tuple[Value, Value]:
    """Whether and where something is written, in the next cycle."""
    (later,), (place,) = delayed(m, 1, writes), delayed(m, 1, index, reset=False)
    return later, place
