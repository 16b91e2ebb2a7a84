"""RESCALE: sums brought to 8 bits by factors of their channels, in one pass."""

from dataclasses import dataclass
from typing import ClassVar

from lathe.configs.encoding import (
    LOOKUP,
    LUT_TABLE,
    PAR,
    RESCALE_ADD,
    TABLE_ELEMENTS,
    Field,
    Format,
    bits,
    bits_for,
    bits_with,
)
from lathe.configs.encoding import RESCALE as EXTENSION
from lathe.configs.field_expressions import FieldValue, MachineNumber
from lathe.configs.instructions.codes import MemoryType, Opcode, Unit
from lathe.configs.instructions.fields import HEAD, LOOPS
from lathe.configs.instructions.row import Block, Kind, MicroOpIndex, Row
from lathe.configs.memory import LOOKUP_STAGES, RESCALE_STAGES


@dataclass(frozen=True, slots=True)
class Rescale:
    """Run micro-ops [``uop_bgn``, ``uop_end``) in two loops: acc[dst] = its sum with a bias, times a factor, in 8 bits.

    Bias and factor are those of each lane in par[wgt]. With ``add``, on machines with "rescale_add", acc[src] is
    rescaled by par[wgt | 1] and added before rounding; src moves with dst. ``zero_point`` is added after rounding; the
    result is clamped to int8, or to uint8 if ``unsigned``, and with ``relu`` to ``zero_point`` from below. With
    ``lookup``, on machines with "lookup", it is replaced by what ``table`` of lut has for it, sign-extended, or
    zero-extended if ``lookup_unsigned``.
    """

    opcode: ClassVar[Opcode] = Opcode.RESCALE

    uop_bgn: int
    uop_end: int
    iter_out: int
    iter_in: int
    dst_factor_out: int
    dst_factor_in: int
    wgt_factor_out: int
    wgt_factor_in: int
    add: bool = False
    zero_point: int = 0
    unsigned: bool = False
    relu: bool = False
    lookup: bool = False
    lookup_unsigned: bool = False
    table: int = 0
    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False

    @property
    def range(self) -> tuple[int, int]:
        """The least and the greatest result; where the first is beyond the second, all results are the second."""
        low, high = (0, 255) if self.unsigned else (-128, 127)
        return self.zero_point if self.relu else low, high


_FORMAT = Format(
    "rescale",
    (
        *HEAD,
        Field("add", bits_for(RESCALE_ADD, 1), "acc[src] is rescaled, too, and added"),
        *LOOPS,
        Field("wgt_factor_out", PAR, "added to wgt in each outer iteration"),
        Field("wgt_factor_in", PAR, "added to wgt in each inner iteration"),
        Field("zero_point", bits(9), "added after rounding", signed=True),
        Field("unsigned", bits(1), "clamp to 0 … 255, not to -128 … 127"),
        Field("relu", bits(1), "clamp to zero_point from below"),
        Field("lookup", bits_with(LOOKUP, 1), "the result is looked up in a table"),
        Field("lookup_unsigned", bits_with(LOOKUP, 1), "what a table has is zero-extended, not sign-extended"),
        Field("table", LUT_TABLE, "the table, counted in tables"),
    ),
)

ADDS = FieldValue("add").differs(0)
"""A second operand is read, in a step of its own."""

_STAGES = MachineNumber(
    "rescale stages",
    lambda machine: RESCALE_STAGES + (LOOKUP_STAGES if LOOKUP in machine.extensions else 0),
)

RESCALE = Row(
    Rescale,
    _FORMAT,
    Kind.ISSUE,
    Unit.COMPUTE,
    "Brings accumulators to 8 bits with a bias and a factor for each lane, and may add others and look results up.",
    "p, q = par[wgt], par[wgt | 1]  # of each lane: bias, mantissa, shift\n"
    "sum = wrap32(acc[dst] + p.bias) * p.mantissa\n"
    "if add:\n"
    "    sum += wrap32(acc[src] + q.bias) * q.mantissa\n"
    "low = zero_point if relu else 0 if unsigned else -128\n"
    "high = 255 if unsigned else 127\n"
    "value = round_half_to_even(sum / 2**p.shift) + zero_point\n"
    "acc[dst] = min(max(value, low), high)\n"
    "if lookup:  # of the element's byte for each lane\n"
    "    byte = lut[table * 256 + (acc[dst] & 255)]\n"
    "    acc[dst] = zero_extend(byte) if lookup_unsigned else sign_extend(byte)",
    indices=(
        MicroOpIndex("src", MemoryType.ACC, read=ADDS, moved_by="dst"),
        MicroOpIndex("dst", MemoryType.ACC, written=True),
        MicroOpIndex("wgt", MemoryType.PAR, odd=ADDS),
    ),
    blocks=(Block("table", MemoryType.LUT, TABLE_ELEMENTS, read=FieldValue("lookup").differs(0)),),
    steps=ADDS + 1,
    trailing=_STAGES,
    extension=EXTENSION,
    purpose="bias, factor, rounding and saturation are one step of an element, where the ALU takes one or two for each "
    "operation and has no product of 64 bits",
)
