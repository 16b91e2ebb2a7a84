"""LOAD: rows of DRAM to a scratchpad, surrounded by padding."""

from dataclasses import dataclass
from typing import ClassVar

from lathe.configs.encoding import PAD_VALUE, Field, Format, bits_with
from lathe.configs.instructions.codes import MemoryType, Opcode
from lathe.configs.instructions.fields import BLOCK, DRAM_BASE, HEAD, WHERE
from lathe.configs.instructions.row import Kind, Row


@dataclass(frozen=True, slots=True)
class Load:
    """Copy ``y_size`` rows of ``x_size`` vectors from DRAM to a dense block at ``sram_base``, surrounded by padding.

    ``dram_base`` and ``x_stride`` count vectors of the memory type; pads count rows and vectors. Padding holds zeros,
    or the value of :attr:`padding` on machines with the extension "pad_value".
    """

    opcode: ClassVar[Opcode] = Opcode.LOAD

    memory_type: MemoryType
    sram_base: int
    dram_base: int
    y_size: int
    x_size: int
    x_stride: int
    y_pad_0: int = 0
    y_pad_1: int = 0
    x_pad_0: int = 0
    x_pad_1: int = 0
    pad_value: int = 0
    pad_limit: bool = False
    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False

    @property
    def padding(self) -> int:
        """The value of padding: 0 for micro-ops and parameters, whatever the fields say."""
        if self.memory_type in (MemoryType.UOP, MemoryType.PAR):
            return 0
        if self.pad_limit and self.memory_type in (MemoryType.ACC, MemoryType.ACC8):
            return -(1 << 31) if self.pad_value < 0 else (1 << 31) - 1
        return self.pad_value


# The pad's fields end the first word, where STORE and VTA's LOAD have six reserved bits and the highest three of
# dram_base. All other fields keep their positions: streams made without the extension keep their meaning.
_FORMAT = Format(
    "load",
    (
        *HEAD,
        *WHERE,
        Field("dram_base", bits_with(PAD_VALUE, 29, otherwise=32), DRAM_BASE),
        Field("pad_value", bits_with(PAD_VALUE, 8), "value of padding; uop, par: always 0", signed=True),
        Field("pad_limit", bits_with(PAD_VALUE, 1), "acc, acc8: pad with int32's minimum (pad_value < 0) or maximum"),
        *BLOCK,
    ),
)

LOAD = Row(
    Load,
    _FORMAT,
    Kind.TRANSFER,
    None,
    "Copies rows of vectors from DRAM into a dense block of a scratchpad, surrounded by padding.",
    "at = sram_base\n"
    "if x_size > 0:\n"
    "    for y in range(-y_pad_0, y_size + y_pad_1):\n"
    "        for x in range(-x_pad_0, x_size + x_pad_1):\n"
    "            inside = 0 <= y < y_size and 0 <= x < x_size\n"
    "            scratchpad[at] = dram[dram_base + y * x_stride + x] if inside else padding\n"
    "            at += 1",
)
