"""Bit-field formats of instructions and micro-ops, with widths that follow from the machine's memories.

The formats stand in this room, below the instruction table that uses them, because a machine whose fields do not fit
its instructions is not a machine: :class:`~lathe.configs.HardwareConfig` refuses it. Each field is stated here and
nowhere else; :mod:`lathe.isa.table` adds opcodes, units and meaning.

The binary layout is the one of VTA's hardware specification (Moreau et al., "A hardware-software blueprint for
flexible deep learning specialization", 2019): C bit-fields in 64-bit words, in 32-bit words for micro-ops.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

INSTRUCTION_BITS = 128
INSTRUCTION_BYTES = INSTRUCTION_BITS // 8
WORD_BITS = 64
UOP_BITS = 32

# The extension with which a LOAD says what its padding holds: fields pad_value and pad_limit.
PAD_VALUE = "pad_value"

# The extension with which a GEMM writes its products instead of adding them: field begin.
GEMM_BEGIN = "gemm_begin"

# The extension with the instruction RESCALE and the scratchpad par; that of its second operand, field add; and that of
# its tables, the scratchpad lut.
RESCALE = "rescale"
RESCALE_ADD = "rescale_add"
LOOKUP = "lookup"

TABLE_ELEMENTS = 256
"""Elements of lut that are a table: one for each value of 8 bits."""


class IndexWidths(Protocol):
    """The bits that index each scratchpad, log2 of its depth in elements; and the extensions that are on."""

    @property
    def extensions(self) -> tuple[str, ...]: ...
    @property
    def uop_index_bits(self) -> int: ...
    @property
    def inp_index_bits(self) -> int: ...
    @property
    def wgt_index_bits(self) -> int: ...
    @property
    def acc_index_bits(self) -> int: ...
    @property
    def par_index_bits(self) -> int: ...
    @property
    def lut_index_bits(self) -> int: ...
    @property
    def table_bits(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Width:
    """The width of a field in bits: ``text`` for the manual, ``of`` to compute it for a machine.

    ``extension`` is what it depends on, if any; ``always`` what it is on every machine, if it is the same on all. A
    field with both has its bits on every machine, and one without the extension refuses all but 0.
    """

    text: str
    of: Callable[[IndexWidths], int]
    extension: str | None = None
    always: int | None = None


def bits(count: int) -> Width:
    """A width that is the same on every machine."""
    return Width(str(count), lambda _: count, always=count)


def bits_with(extension: str, count: int, otherwise: int = 0) -> Width:
    """A width that is ``count`` where the extension is on, and ``otherwise`` where it is not."""
    return Width(
        f"{count} with {extension}, else {otherwise or 'none'}",
        lambda machine: count if extension in machine.extensions else otherwise,
        extension,
    )


def bits_for(extension: str, count: int) -> Width:
    """A width that is the same on every machine, of a field that must be 0 where the extension is off."""
    return Width(str(count), lambda _: count, extension, always=count)


UOP = Width("uop", lambda machine: machine.uop_index_bits)
UOP_END = Width("uop + 1", lambda machine: machine.uop_index_bits + 1)
INP = Width("inp", lambda machine: machine.inp_index_bits)
WGT = Width("wgt", lambda machine: machine.wgt_index_bits)
ACC = Width("acc", lambda machine: machine.acc_index_bits)
PAR = Width("par", lambda machine: machine.par_index_bits, RESCALE)
LUT_TABLE = Width("log2 of tables", lambda machine: machine.table_bits, LOOKUP)
ACC_OR_INP = Width("max(acc, inp)", lambda machine: max(machine.acc_index_bits, machine.inp_index_bits))


@dataclass(frozen=True, slots=True)
class Field:
    """One bit field: its ISA name, its width, whether it is two's complement, and what it says.

    One that ``fills_gap`` stands in bits that the others leave free, and moves none of them.
    """

    name: str
    width: Width
    what: str
    signed: bool = False
    fills_gap: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a machine has a field: bits [lsb, lsb + width) of the instruction, never across a word's end."""

    field: Field
    lsb: int
    width: int

    @property
    def lowest(self) -> int:
        """The least value that the field holds; a field without bits holds 0 only."""
        return -(1 << (self.width - 1)) if self.field.signed and self.width else 0

    @property
    def highest(self) -> int:
        """The greatest value that the field holds."""
        return (1 << max(self.width - self.field.signed, 0)) - 1


@dataclass(frozen=True, slots=True)
class Format:
    """Fields in the order in which they are packed, lowest bit first, into words of ``word_bits``.

    Fields that fill gaps come last.
    """

    name: str
    fields: tuple[Field, ...]
    total_bits: int = INSTRUCTION_BITS
    word_bits: int = WORD_BITS

    def values(self, name: str) -> range:
        """What a field holds that is as wide on every machine."""
        field = next(each for each in self.fields if each.name == name)
        assert field.width.always is not None, f"{name} of {self.name} is as wide as the machine makes it"
        held = Placement(field, 0, field.width.always)
        return range(held.lowest, held.highest + 1)


UOP_FORMAT = Format(
    "micro-op",
    (
        Field("dst", ACC, "accumulator element that is written"),
        Field("src", ACC_OR_INP, "GEMM: input element; ALU, RESCALE: accumulator element that is read"),
        Field("wgt", WGT, "GEMM: weight element; RESCALE: parameter element"),
    ),
    total_bits=UOP_BITS,
    word_bits=UOP_BITS,
)


def place(fields: Sequence[Field], word_bits: int, machine: IndexWidths) -> tuple[Placement, ...]:
    """Pack fields as C bit-fields: one that does not fit into what is left of a word starts the next word.

    A field that fills a gap is put, when the others have their places, into the first gap that is wide enough, or after
    all of them if there is none.
    """
    placements: list[Placement] = []
    gaps: list[tuple[int, int]] = []
    position = 0
    for field in fields:
        width = field.width.of(machine)
        left = word_bits - position % word_bits
        if field.fills_gap:
            chosen = next((place for place, (_, room) in enumerate(gaps) if room >= width), None)
            if chosen is not None:
                start, room = gaps[chosen]
                gaps[chosen] = (start + width, room - width)
                placements.append(Placement(field, start, width))
                continue
        if width > left:
            gaps.append((position, left))
            position += left
        placements.append(Placement(field, position, width))
        position += width
    return tuple(placements)
