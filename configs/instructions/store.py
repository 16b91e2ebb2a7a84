"""STORE: a dense block of accumulators, truncated to 8 bits, to rows of DRAM."""

from dataclasses import dataclass
from typing import ClassVar

from lathe.configs.encoding import Field, Format, bits
from lathe.configs.instructions.codes import MemoryType, Opcode, Unit
from lathe.configs.instructions.fields import BLOCK, DRAM_BASE, HEAD, WHERE
from lathe.configs.instructions.row import Kind, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Copy a dense block of out (acc's low bits) at ``sram_base`` to ``y_size`` rows of ``x_size`` vectors in DRAM.

    The encoding has other memory types and pads, which no machine executes; they are fields here so that every encoded
    instruction can be represented and refused.
    """

    opcode: ClassVar[Opcode] = Opcode.STORE

    memory_type: MemoryType = MemoryType.OUT
    sram_base: int
    dram_base: int
    y_size: int
    x_size: int
    x_stride: int
    y_pad_0: int = 0
    y_pad_1: int = 0
    x_pad_0: int = 0
    x_pad_1: int = 0
    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False


STORE = Row(
    Store,
    Format("store", (*HEAD, *WHERE, Field("dram_base", bits(32), DRAM_BASE), *BLOCK)),
    Kind.TRANSFER,
    Unit.STORE,
    "Copies a dense block of out, the low bits of the accumulators, into rows of DRAM. Memory type out, no pads.",
    "for y in range(y_size):\n"
    "    for x in range(x_size):\n"
    "        dram[dram_base + y * x_stride + x] = low_8_bits(acc[sram_base + y * x_size + x])",
    stores=True,
)
