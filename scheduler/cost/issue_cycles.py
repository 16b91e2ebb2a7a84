"""Steps of an instruction's micro-op, from its row."""

from lathe.isa import Alu, AluOp, Rescale
from lathe.isa.operands import usage_of
from lathe.scheduler.rewriting.match_rescale import Rescaling


def steps_of_alu(operation: AluOp, *, immediate: bool) -> int:
    """Of an operation of the ALU, on a number or on two tensors."""
    return usage_of(Alu(operation, 0, 1, 1, 1, 0, 0, 0, 0, use_imm=immediate)).steps


def steps_of_rescaling(rescaling: Rescaling) -> int:
    """Of RESCALE, of one value or of two added."""
    return usage_of(Rescale(0, 1, 1, 1, 0, 0, 0, 0, add=len(rescaling.terms) > 1)).steps
