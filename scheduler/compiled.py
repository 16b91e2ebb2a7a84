"""A program, and where each of its instructions comes from."""

from collections.abc import Sequence
from dataclasses import dataclass

from lathe.isa import Program, Unit
from lathe.scheduler.signals import Marker, Origin


@dataclass(frozen=True)
class Compiled:
    """``origins`` of the instructions; ``barriers`` by number; tokens by hand, each with the number of an instruction.

    ``sends`` are behind their instruction, ``receives`` before theirs.
    """

    program: Program
    origins: Sequence[Origin]
    barriers: Sequence[int]
    sends: Sequence[tuple[int, Marker]]
    receives: Sequence[tuple[int, Marker]]

    def lines_of(self, unit: Unit) -> list[tuple[float, str]]:
        """What signals say to a unit's queue: text, and where it stands between the numbers of instructions."""
        found = [(number + 0.0, "barrier") for number in self.barriers if unit != Unit.COMPUTE]
        found += [(number - 0.5, "barrier") for number in self.barriers if unit == Unit.COMPUTE]
        for shift, verb, markers in ((0.5, "sends to", self.sends), (-0.5, "receives from", self.receives)):
            for number, marker in markers:
                if marker.unit == unit:
                    found.append((number + shift, f"{verb} {marker.signal.other}: {marker.origin}"))
        return found
