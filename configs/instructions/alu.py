"""ALU: fields, operands and issue cycles of an operation on accumulators and an immediate or second accumulators."""

from dataclasses import dataclass
from typing import ClassVar

from lathe.configs.alu_operations import AluOp
from lathe.configs.encoding import ACC, Field, Format, bits
from lathe.configs.field_expressions import Expression, FieldValue, Number
from lathe.configs.instructions.codes import MemoryType, Opcode, Unit
from lathe.configs.instructions.fields import HEAD, LOOPS, RESET
from lathe.configs.instructions.row import Kind, MicroOpIndex, Row


@dataclass(frozen=True, slots=True)
class Alu:
    """Run micro-ops [``uop_bgn``, ``uop_end``) in two nested loops: acc[dst] = op(acc[dst], ``imm`` or acc[src]).

    ``reset`` is a bit that the encoding shares with GEMM; ALU ignores it.
    """

    opcode: ClassVar[Opcode] = Opcode.ALU

    alu_opcode: AluOp
    uop_bgn: int
    uop_end: int
    iter_out: int
    iter_in: int
    dst_factor_out: int
    dst_factor_in: int
    src_factor_out: int
    src_factor_in: int
    use_imm: bool = False
    imm: int = 0
    reset: bool = False
    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False


_FORMAT = Format(
    "alu",
    (
        *HEAD,
        RESET,
        *LOOPS,
        Field("src_factor_out", ACC, "added to src in each outer iteration"),
        Field("src_factor_in", ACC, "added to src in each inner iteration"),
        Field("alu_opcode", bits(3), "the operation"),
        Field("use_imm", bits(1), "the second operand is imm, not acc[src]"),
        Field("imm", bits(16), "the immediate operand, sign-extended", signed=True),
    ),
)

TENSOR = FieldValue("use_imm").equals(0)
"""The second operand is an accumulator, whose read takes an issue cycle of its own."""


def _waits() -> Expression:
    """Extra issue cycles of a micro-op, by its operation."""
    waits: Expression = Number(0)
    for each in AluOp:
        if each.waits:
            runs = FieldValue("alu_opcode").equals(each.value)
            waits = waits + (runs if each.waits == 1 else runs * each.waits)  # * 1 would be a multiplier in hardware
    return waits


ALU = Row(
    Alu,
    _FORMAT,
    Kind.ISSUE,
    Unit.COMPUTE,
    "Applies an element-wise operation to accumulators and an immediate or other accumulators.",
    "acc[dst] = operation(acc[dst], imm if use_imm else acc[src])",
    indices=(MicroOpIndex("src", MemoryType.ACC, read=TENSOR), MicroOpIndex("dst", MemoryType.ACC, written=True)),
    issue_cycles=TENSOR + 1 + _waits(),
)
