"""A program, and where each of its instructions comes from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from lathe.frontend import Tensor
from lathe.isa import Program, Unit
from lathe.scheduler.codegen.provenance import ChunkProvenance
from lathe.scheduler.schedule_ir.layout import TensorLayout
from lathe.scheduler.schedule_ir.schedule import ScheduleView
from lathe.scheduler.schedule_ir.sync import Marker, Origin


@dataclass(frozen=True)
class Compiled:
    """``origins`` of the instructions; ``barriers`` by number; tokens by hand, each with the number of an instruction.

    ``sends`` are behind their instruction, ``receives`` before theirs. ``chunks`` say what each chunk makes, of the
    stages of ``schedule``, which is complete; ``views`` maps placeholders that stand for another one, reshaped, to it;
    ``constants`` are the arrays, by name, of inputs that are part of the program.
    """

    program: Program
    origins: Sequence[Origin]
    barriers: Sequence[int]
    sends: Sequence[tuple[int, Marker]]
    receives: Sequence[tuple[int, Marker]]
    chunks: Sequence[ChunkProvenance]
    schedule: ScheduleView
    views: Mapping[Tensor, Tensor]
    constants: Mapping[str, NDArray[Any]]

    def layout_of(self, tensor: Tensor) -> TensorLayout:
        """How an input or output of the program lies in the axes in which a tensor of the schedule stands for it.

        Its elements are those of the tensor, in row-major order, in another shape.
        """
        seen = self.views.get(tensor, tensor)
        return self.schedule.layouts.get(seen, TensorLayout(seen))

    def lines_of(self, unit: Unit) -> list[tuple[float, str]]:
        """What signals say to a unit's queue: text, and where it stands between the numbers of instructions."""
        found = [(number + 0.0, "barrier") for number in self.barriers if unit != Unit.COMPUTE]
        found += [(number - 0.5, "barrier") for number in self.barriers if unit == Unit.COMPUTE]
        for shift, verb, markers in ((0.5, "sends to", self.sends), (-0.5, "receives from", self.receives)):
            for number, marker in markers:
                if marker.unit == unit:
                    found.append((number + shift, f"{verb} {marker.signal.other}: {marker.origin}"))
        return found
