"""Where the units of instructions stand in the compute pipeline: what they are given."""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth import Signal
from amaranth.lib import data

from lathe.isa.table import MemoryType
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.scratchpad import LookupTables, Scratchpad


@dataclass(frozen=True)
class ExecuteStage:
    """The place in the pipeline where what micro-ops write is made of what they read.

    ``stages``: the steps on their way, of which the last four read an accumulator, hold it, combine and write.
    ``value``: the accumulator that the step that combines has read, all values of it; while a step holds, that of the
    step before. ``indices``: those of a step three cycles after its issue. ``pads``: the other scratchpads.
    """

    geometry: Geometry
    pads: Mapping[MemoryType, Scratchpad]
    tables: LookupTables | None
    indices: Mapping[str, Signal]
    stages: list[data.View]
    value: Signal

    @property
    def reading(self) -> data.View:
        """The step that reads its accumulator."""
        return self.stages[-4]

    @property
    def holding(self) -> data.View:
        """The step behind the one that combines: its accumulator comes in the next cycle."""
        return self.stages[-3]

    @property
    def combining(self) -> data.View:
        """The step whose accumulator is ``value``; it writes in this cycle, or as much later as its row says."""
        return self.stages[-2]
