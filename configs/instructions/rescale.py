"""RESCALE: requantisation of accumulators to 8 bits with per-channel parameters, in one pass."""

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
    """Run micro-ops [``uop_bgn``, ``uop_end``) in two nested loops: acc[dst] = (acc[dst] + bias) · factor, in 8 bits.

    par[wgt] holds bias and factor of each lane. With ``add`` (extension "rescale_add"), acc[src] is rescaled by par[wgt
    | 1] and added before rounding; src advances by the factors of dst. ``zero_point`` is added after rounding. The
    result is clamped to int8, or to uint8 if ``unsigned``; ``relu`` sets the lower limit to ``zero_point``. With
    ``lookup`` (extension "lookup"), the result is replaced by its entry in table ``table`` of lut, sign-extended, or
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
        """The smallest and the largest result; if the first exceeds the second, all results are the second."""
        low, high = (0, 255) if self.unsigned else (-128, 127)
        return self.zero_point if self.relu else low, high


_FORMAT = Format(
    "rescale",
    (
        *HEAD,
        Field("add", bits_for(RESCALE_ADD, 1), "rescale acc[src], too, and add it"),
        *LOOPS,
        Field("wgt_factor_out", PAR, "added to wgt in each outer iteration"),
        Field("wgt_factor_in", PAR, "added to wgt in each inner iteration"),
        Field("zero_point", bits(9), "added after rounding", signed=True),
        Field("unsigned", bits(1), "clamp to 0 … 255 instead of -128 … 127"),
        Field("relu", bits(1), "set the lower limit of the clamp to zero_point"),
        Field("lookup", bits_with(LOOKUP, 1), "replace the result by its entry in a table"),
        Field("lookup_unsigned", bits_with(LOOKUP, 1), "zero-extend entries instead of sign-extending them"),
        Field("table", LUT_TABLE, "the table's number, in tables of 256 vectors"),
    ),
)

ADDS = FieldValue("add").differs(0)
"""The second operand is read, in an issue cycle of its own."""

_STAGES = MachineNumber(
    "rescale stages", lambda machine: RESCALE_STAGES + (LOOKUP_STAGES if LOOKUP in machine.extensions else 0)
)

RESCALE = Row(
    Rescale,
    _FORMAT,
    Kind.ISSUE,
    Unit.COMPUTE,
    "Requantises accumulators to 8 bits with per-lane bias and factor; can add other accumulators and look results up.",
    "p, q = par[wgt], par[wgt | 1]  # per lane: bias, mantissa, shift\n"
    "sum = wrap32(acc[dst] + p.bias) * p.mantissa\n"
    "if add:\n"
    "    sum += wrap32(acc[src] + q.bias) * q.mantissa\n"
    "low = zero_point if relu else 0 if unsigned else -128\n"
    "high = 255 if unsigned else 127\n"
    "value = round_half_to_even(sum / 2**p.shift) + zero_point\n"
    "acc[dst] = min(max(value, low), high)\n"
    "if lookup:  # per lane, its byte of the vector\n"
    "    byte = lut[table * 256 + (acc[dst] & 255)]\n"
    "    acc[dst] = zero_extend(byte) if lookup_unsigned else sign_extend(byte)",
    indices=(
        MicroOpIndex("src", MemoryType.ACC, read=ADDS, strides_of="dst"),
        MicroOpIndex("dst", MemoryType.ACC, written=True),
        MicroOpIndex("wgt", MemoryType.PAR, odd=ADDS),
    ),
    blocks=(Block("table", MemoryType.LUT, TABLE_ELEMENTS, read=FieldValue("lookup").differs(0)),),
    issue_cycles=ADDS + 1,
    extra_latency=_STAGES,
    extension=EXTENSION,
    purpose="bias, factor, rounding and saturation take one cycle per vector; the ALU takes one or two for each "
    "operation and has no 64-bit multiplication",
)
