"""The interface of the compute pipeline to its functional units, such as the ALU."""

from collections.abc import Mapping
from dataclasses import dataclass

from amaranth import Signal
from amaranth.lib import data

from lathe.isa.table import MemoryType
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.scratchpad import LookupTables, Scratchpad


@dataclass(frozen=True)
class ExecuteStage:
    """The position in the pipeline at which functional units compute what micro-ops write from what they read.

    ``stages``: the steps in the pipeline; the last four read an accumulator, hold it, combine it with operands, and
    write. ``value``: the accumulator vector of the step that combines, which is the one before the step that holds.
    ``indices``: those of the step that was issued three cycles ago. ``pads``: the other scratchpads.
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
        """The step after the one that combines: its accumulator comes in the next cycle."""
        return self.stages[-3]

    @property
    def combining(self) -> data.View:
        """The step whose accumulator is ``value``; its result comes in this cycle, or as much later as its row says."""
        return self.stages[-2]
