"""Issue cycles of a micro-op of each instruction, from the instruction table."""

from lathe.isa import Alu, AluOp, Rescale
from lathe.isa.operands import usage_of
from lathe.scheduler.rewriting.match_rescale import Rescaling


def alu_issue_cycles(operation: AluOp, *, immediate: bool) -> int:
    """Cycles per micro-op of an ALU operation with an immediate, or with two tensor operands."""
    return usage_of(Alu(operation, 0, 1, 1, 1, 0, 0, 0, 0, use_imm=immediate)).issue_cycles


def rescale_issue_cycles(rescaling: Rescaling) -> int:
    """Cycles per micro-op of RESCALE, with one operand or two."""
    return usage_of(Rescale(0, 1, 1, 1, 0, 0, 0, 0, add=len(rescaling.terms) > 1)).issue_cycles
