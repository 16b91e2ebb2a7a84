"""The units of instructions in the compute pipeline: a line for each, and a file with its gates.

The matrix core is none of them: its sums are on their way before an accumulator is read.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from amaranth import Module
from amaranth.hdl import Value

from lathe.isa.table import Opcode
from lathe.rtl.alu import alu_in
from lathe.rtl.execute_stage import ExecuteStage
from lathe.rtl.rescale import rescale_in

UNITS: Mapping[Opcode, Callable[[Module, ExecuteStage], Value]] = MappingProxyType(
    {Opcode.ALU: alu_in, Opcode.RESCALE: rescale_in}
)
"""By instruction: puts its unit into the pipeline, and gives what the micro-ops write, all values of an accumulator."""
