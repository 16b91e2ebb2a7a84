"""The functional units of the compute pipeline, by instruction; each has a file with its logic.

The matrix core is not among them, since its sums start before the accumulator is read.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from amaranth import Module
from amaranth.hdl import Value

from lathe.isa.table import Opcode
from lathe.rtl.alu import connect_alu
from lathe.rtl.execute_stage import ExecuteStage
from lathe.rtl.rescale import connect_rescale

UNITS: Mapping[Opcode, Callable[[Module, ExecuteStage], Value]] = MappingProxyType(
    {Opcode.ALU: connect_alu, Opcode.RESCALE: connect_rescale}
)
"""By instruction, a function that connects its unit to the pipeline and returns the accumulator vectors it writes."""
