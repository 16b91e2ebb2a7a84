"""A compiled program with the provenance of its instructions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from lathe.frontend import Tensor
from lathe.isa import Program, Unit
from lathe.scheduler.codegen.provenance import ChunkProvenance
from lathe.scheduler.schedule_ir.layout import TensorLayout
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView
from lathe.scheduler.schedule_ir.sync import Marker, Origin


@dataclass(frozen=True)
class Compiled:
    """``origins`` of the instructions; ``barriers`` and manual tokens by instruction number.

    ``sends`` come after their instruction, ``receives`` before theirs. ``chunks``: what each chunk computes of the
    stages of ``schedule``, which is lowered. ``views`` maps placeholders that are reshaped views of another one to that
    one. ``constants``: the arrays, by name, of inputs that are part of the program.
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
        """The layout of an input or output, in the axes of the schedule's tensor for it, which may be reshaped."""
        viewed = self.views.get(tensor, tensor)
        return self.schedule.layouts.get(viewed, TensorLayout(viewed))

    def lines_of(self, unit: Unit) -> list[tuple[float, str]]:
        """The text of barriers and manual tokens in a unit's queue, each with its position between instructions."""
        found = [(number + 0.0, "barrier") for number in self.barriers if unit != Unit.COMPUTE]
        found += [(number - 0.5, "barrier") for number in self.barriers if unit == Unit.COMPUTE]
        for shift, verb, markers in ((0.5, "sends to", self.sends), (-0.5, "receives from", self.receives)):
            for number, marker in markers:
                if marker.unit == unit:
                    found.append((number + shift, f"{verb} {marker.sync_op.other}: {marker.origin}"))
        return found
