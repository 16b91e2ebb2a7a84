"""Bit-field formats of instructions and micro-ops, whose widths follow from the machine's scratchpad depths.

The formats are in this package, below the instruction table that uses them, because
:class:`~lathe.configs.HardwareConfig` refuses a machine whose fields do not fit. Each field is defined here only;
:mod:`lathe.isa.table` adds opcodes, units and semantics.

The binary layout is the one of VTA's hardware specification (Moreau et al., "A hardware-software blueprint for flexible
deep learning specialization", 2019): C bit-fields in 64-bit words, in 32-bit words for micro-ops.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

INSTRUCTION_BITS = 128
INSTRUCTION_BYTES = INSTRUCTION_BITS // 8
WORD_BITS = 64
UOP_BITS = 32

# The extension with which a LOAD sets the value of its padding: fields pad_value and pad_limit.
PAD_VALUE = "pad_value"

# The extension with which a GEMM overwrites accumulators instead of adding to them: field begin.
GEMM_BEGIN = "gemm_begin"

# The extensions of the instruction RESCALE and the scratchpad par; of its second operand, field add; and of its look-up
# tables, the scratchpad lut.
RESCALE = "rescale"
RESCALE_ADD = "rescale_add"
LOOKUP = "lookup"

TABLE_ELEMENTS = 256
"""Vectors of lut in a look-up table: one for each 8-bit value."""


class IndexWidths(Protocol):
    """The bits that index each scratchpad, log2 of its depth in vectors, and the enabled extensions."""

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

    ``extension`` is the one that it depends on, if any; ``always`` is the width if it is the same on all machines. A
    field with both has its bits on every machine, and must be 0 on machines without the extension.
    """

    text: str
    of: Callable[[IndexWidths], int]
    extension: str | None = None
    always: int | None = None


def bits(count: int) -> Width:
    """A width that is the same on every machine."""
    return Width(str(count), lambda _: count, always=count)


def bits_with(extension: str, count: int, otherwise: int = 0) -> Width:
    """A width of ``count`` on machines with the extension and ``otherwise`` on others."""
    return Width(
        f"{count} with {extension}, else {otherwise or 'none'}",
        lambda machine: count if extension in machine.extensions else otherwise,
        extension,
    )


def bits_for(extension: str, count: int) -> Width:
    """A width that is the same on every machine, of a field that must be 0 without the extension."""
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
    """One bit field: its ISA name, its width, its description, and whether it is two's complement.

    A field that ``fills_gap`` occupies bits that the others leave unused, and moves none of them.
    """

    name: str
    width: Width
    what: str
    signed: bool = False
    fills_gap: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """The bits of a field on a machine: [lsb, lsb + width) of the instruction, never across a word boundary."""

    field: Field
    lsb: int
    width: int

    @property
    def lowest(self) -> int:
        """The smallest value of the field; a field without bits is always 0."""
        return -(1 << (self.width - 1)) if self.field.signed and self.width else 0

    @property
    def highest(self) -> int:
        """The largest value of the field."""
        return (1 << max(self.width - self.field.signed, 0)) - 1


@dataclass(frozen=True, slots=True)
class Format:
    """Fields in packing order, lowest bit first, in words of ``word_bits``.

    Fields that fill gaps come last.
    """

    name: str
    fields: tuple[Field, ...]
    total_bits: int = INSTRUCTION_BITS
    word_bits: int = WORD_BITS

    def values(self, name: str) -> range:
        """The values of a field that is equally wide on every machine."""
        field = next(each for each in self.fields if each.name == name)
        assert field.width.always is not None, f"the width of {name} of {self.name} depends on the machine"
        placement = Placement(field, 0, field.width.always)
        return range(placement.lowest, placement.highest + 1)


UOP_FORMAT = Format(
    "micro-op",
    (
        Field("dst", ACC, "accumulator vector that is written"),
        Field("src", ACC_OR_INP, "GEMM: input vector; ALU, RESCALE: accumulator vector that is read"),
        Field("wgt", WGT, "GEMM: weight vector; RESCALE: parameter vector"),
    ),
    total_bits=UOP_BITS,
    word_bits=UOP_BITS,
)


def pack_fields(fields: Sequence[Field], word_bits: int, machine: IndexWidths) -> tuple[Placement, ...]:
    """Pack fields as C bit-fields: one that does not fit into the rest of a word starts the next word.

    When the other fields are packed, a field that fills a gap gets the first gap that is wide enough, or the bits after
    all others if there is none.
    """
    placements: list[Placement] = []
    gaps: list[tuple[int, int]] = []
    position = 0
    for field in fields:
        width = field.width.of(machine)
        rest = word_bits - position % word_bits
        if field.fills_gap:
            gap = next((number for number, (_, free) in enumerate(gaps) if free >= width), None)
            if gap is not None:
                start, free = gaps[gap]
                gaps[gap] = (start + width, free - width)
                placements.append(Placement(field, start, width))
                continue
        if width > rest:
            gaps.append((position, rest))
            position += rest
        placements.append(Placement(field, position, width))
        position += width
    return tuple(placements)
