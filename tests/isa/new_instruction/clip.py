"""CLIP: accumulators clamped to a range in one issue cycle."""

from dataclasses import dataclass
from typing import ClassVar

from lathe.configs.encoding import Field, Format, bits
from lathe.configs.instructions.codes import MemoryType, Opcode, Unit
from lathe.configs.instructions.fields import HEAD, LOOPS, RESET
from lathe.configs.instructions.row import Kind, MicroOpIndex, Row


@dataclass(frozen=True, slots=True)
class Clip:
    """Run micro-ops [``uop_bgn``, ``uop_end``) in two loops: acc[dst] = min(max(acc[dst], ``low``), ``high``)."""

    opcode: ClassVar[Opcode] = Opcode.CLIP

    uop_bgn: int
    uop_end: int
    iter_out: int
    iter_in: int
    dst_factor_out: int
    dst_factor_in: int
    low: int
    high: int
    reset: bool = False
    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False


CLIP = Row(
    Clip,
    Format(
        "clip",
        (
            *HEAD,
            RESET,
            *LOOPS,
            Field("low", bits(16), "the smallest value", signed=True),
            Field("high", bits(16), "the largest value", signed=True),
        ),
    ),
    Kind.ISSUE,
    Unit.COMPUTE,
    "Clamps accumulators to a range, element-wise.",
    "acc[dst] = min(max(acc[dst], low), high)",
    indices=(MicroOpIndex("dst", MemoryType.ACC, written=True),),
    extension="clip",
    purpose="both bounds take one cycle per vector",
)
