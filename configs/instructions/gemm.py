"""GEMM: multiply-accumulate of inputs and transposed weights into accumulators."""

from dataclasses import dataclass
from typing import ClassVar

from lathe.configs.encoding import GEMM_BEGIN, INP, WGT, Field, Format, bits_with
from lathe.configs.field_expressions import FieldValue
from lathe.configs.instructions.codes import MemoryType, Opcode, Unit
from lathe.configs.instructions.fields import HEAD, LOOPS, RESET
from lathe.configs.instructions.row import Kind, MicroOpIndex, Row


@dataclass(frozen=True, slots=True)
class Gemm:
    """Run micro-ops [``uop_bgn``, ``uop_end``) in two nested loops: acc[dst] += inp[src] · wgt[wgt]ᵀ (``reset``: = 0).

    With ``begin`` (extension "gemm_begin"), acc[dst] = inp[src] · wgt[wgt]ᵀ; ``reset`` takes precedence over ``begin``.
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


# `begin` uses a reserved bit. On VTA's machine that is the bit of word 0 after iter_in; on others it is elsewhere, but
# always exists: all fields but uop_end and those of one bit come in pairs of equal width, so that the sum of the widths
# is odd. Streams made without the extension have 0 there, and keep their meaning.
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
        Field("begin", bits_with(GEMM_BEGIN, 1), "overwrite accumulators instead of adding to them", fills_gap=True),
    ),
)

MULTIPLIES = FieldValue("reset").equals(0)
"""A GEMM with ``reset`` reads no operand."""

GEMM = Row(
    Gemm,
    _FORMAT,
    Kind.ISSUE,
    Unit.COMPUTE,
    "Multiplies inputs by transposed weights; adds results to accumulators or overwrites them, or resets them to 0.",
    "addend = 0 if begin else acc[dst]\n"
    "acc[dst] = 0 if reset else wrap32(addend + inp[src] @ transpose(wgt_memory[wgt]))",
    indices=(
        MicroOpIndex("dst", MemoryType.ACC, read=MULTIPLIES & FieldValue("begin").equals(0), written=True),
        MicroOpIndex("src", MemoryType.INP, read=MULTIPLIES),
        MicroOpIndex("wgt", MemoryType.WGT, read=MULTIPLIES),
    ),
)
