"""GEMM: products of inputs and transposed weights in accumulators."""

from dataclasses import dataclass
from typing import ClassVar

from lathe.configs.encoding import GEMM_BEGIN, INP, WGT, Field, Format, bits_with
from lathe.configs.field_expressions import FieldValue
from lathe.configs.instructions.codes import MemoryType, Opcode, Unit
from lathe.configs.instructions.fields import HEAD, LOOPS, RESET
from lathe.configs.instructions.row import Kind, MicroOpIndex, Row


@dataclass(frozen=True, slots=True)
class Gemm:
    """Run micro-ops [``uop_bgn``, ``uop_end``) in two loops: acc[dst] += inp[src] · wgt[wgt]ᵀ, or 0 if ``reset``.

    With ``begin``, on machines with the extension "gemm_begin", acc[dst] = inp[src] · wgt[wgt]ᵀ; ``reset`` is stronger.
    """

    opcode: ClassVar[Opcode] = Opcode.GEMM

    uop_bgn: int
    uop_end: int
    iter_out: int
    iter_in: int
    dst_factor_out: int
    dst_factor_in: int
    src_factor_out: int
    src_factor_in: int
    wgt_factor_out: int
    wgt_factor_in: int
    reset: bool = False
    begin: bool = False
    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False


# On VTA's machine word 0 has one free bit, behind iter_in, and word 1 none; on others the free bits are elsewhere, but
# one there always is: all but the fields of one bit and uop_end come in pairs, so that the widths make an odd number. A
# stream that was made without the extension has 0 there, and means the same with it.
_FORMAT = Format(
    "gemm",
    (
        *HEAD,
        RESET,
        *LOOPS,
        Field("src_factor_out", INP, "added to src in each outer iteration"),
        Field("src_factor_in", INP, "added to src in each inner iteration"),
        Field("wgt_factor_out", WGT, "added to wgt in each outer iteration"),
        Field("wgt_factor_in", WGT, "added to wgt in each inner iteration"),
        Field("begin", bits_with(GEMM_BEGIN, 1), "write products instead of adding them", fills_gap=True),
    ),
)

MULTIPLIES = FieldValue("reset").equals(0)
"""A GEMM that resets reads no operand."""

GEMM = Row(
    Gemm,
    _FORMAT,
    Kind.ISSUE,
    Unit.COMPUTE,
    "Multiplies inputs with transposed weights; adds products to accumulators, or writes them, or zeros.",
    "addend = 0 if begin else acc[dst]\n"
    "acc[dst] = 0 if reset else wrap32(addend + inp[src] @ transpose(wgt_memory[wgt]))",
    indices=(
        MicroOpIndex("dst", MemoryType.ACC, read=MULTIPLIES & FieldValue("begin").equals(0), written=True),
        MicroOpIndex("src", MemoryType.INP, read=MULTIPLIES),
        MicroOpIndex("wgt", MemoryType.WGT, read=MULTIPLIES),
    ),
)
