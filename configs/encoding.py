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


@dataclass(frozen=True, slots=True)
class Width:
    """The width of a field in bits: ``text`` for the manual, ``of`` to compute it for a machine.

    ``extension`` is what it depends on, if any; ``always`` what it is on every machine, if it is the same on all.
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


UOP = Width("uop", lambda machine: machine.uop_index_bits)
UOP_END = Width("uop + 1", lambda machine: machine.uop_index_bits + 1)
INP = Width("inp", lambda machine: machine.inp_index_bits)
WGT = Width("wgt", lambda machine: machine.wgt_index_bits)
ACC = Width("acc", lambda machine: machine.acc_index_bits)
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


_HEAD = (
    Field("opcode", bits(3), "which instruction this is"),
    Field("pop_prev", bits(1), "before starting, take a token from the unit before this one"),
    Field("pop_next", bits(1), "before starting, take a token from the unit after this one"),
    Field("push_prev", bits(1), "when done, give a token to the unit before this one"),
    Field("push_next", bits(1), "when done, give a token to the unit after this one"),
)

_LOOPS = (
    Field("reset", bits(1), "GEMM: write zeros and read no operand; ALU: ignored"),
    Field("uop_bgn", UOP, "first micro-op"),
    Field("uop_end", UOP_END, "one past the last micro-op"),
    Field("iter_out", bits(14), "iterations of the outer loop"),
    Field("iter_in", bits(14), "iterations of the inner loop"),
    Field("dst_factor_out", ACC, "added to dst in each outer iteration"),
    Field("dst_factor_in", ACC, "added to dst in each inner iteration"),
)

BARE = Format("bare", _HEAD)

_WHERE = (
    Field("memory_type", bits(3), "which memory, and how DRAM holds its elements"),
    Field("sram_base", bits(16), "first scratchpad element"),
)
_DRAM_BASE = "first DRAM element, counted in elements of the memory type from address 0"
_BLOCK = (
    Field("y_size", bits(16), "rows read from or written to DRAM"),
    Field("x_size", bits(16), "elements of a row"),
    Field("x_stride", bits(16), "DRAM elements from one row's start to the next"),
    Field("y_pad_0", bits(4), "rows of padding before the first"),
    Field("y_pad_1", bits(4), "rows of padding after the last"),
    Field("x_pad_0", bits(4), "elements of padding before each row"),
    Field("x_pad_1", bits(4), "elements of padding after each row"),
)

STORE = Format("store", (*_HEAD, *_WHERE, Field("dram_base", bits(32), _DRAM_BASE), *_BLOCK))

# The pad's bits end the first word, where STORE and VTA's LOAD have six free ones and the highest three of dram_base:
# all other fields stay in their places, so that streams made without the extension mean the same with it.
LOAD = Format(
    "load",
    (
        *_HEAD,
        *_WHERE,
        Field("dram_base", bits_with(PAD_VALUE, 29, otherwise=32), _DRAM_BASE),
        Field("pad_value", bits_with(PAD_VALUE, 8), "what padding holds; uop: always 0", signed=True),
        Field("pad_limit", bits_with(PAD_VALUE, 1), "acc, acc8: not pad_value but the end of int32 on its side of 0"),
        *_BLOCK,
    ),
)

# On VTA's machine word 0 has one free bit, behind iter_in, and word 1 none; on others the free bits are elsewhere, but
# one there always is: all but the fields of one bit and uop_end come in pairs, so that the widths make an odd number. A
# stream that was made without the extension has 0 there, and means the same with it.
GEMM = Format(
    "gemm",
    (
        *_HEAD,
        *_LOOPS,
        Field("src_factor_out", INP, "added to src in each outer iteration"),
        Field("src_factor_in", INP, "added to src in each inner iteration"),
        Field("wgt_factor_out", WGT, "added to wgt in each outer iteration"),
        Field("wgt_factor_in", WGT, "added to wgt in each inner iteration"),
        Field("begin", bits_with(GEMM_BEGIN, 1), "write products instead of adding them", fills_gap=True),
    ),
)

ALU = Format(
    "alu",
    (
        *_HEAD,
        *_LOOPS,
        Field("src_factor_out", ACC, "added to src in each outer iteration"),
        Field("src_factor_in", ACC, "added to src in each inner iteration"),
        Field("alu_opcode", bits(3), "the operation"),
        Field("use_imm", bits(1), "the second operand is imm, not acc[src]"),
        Field("imm", bits(16), "the immediate operand, sign-extended", signed=True),
    ),
)

UOP_FORMAT = Format(
    "micro-op",
    (
        Field("dst", ACC, "accumulator element that is written"),
        Field("src", ACC_OR_INP, "GEMM: input element; ALU: accumulator element that is read"),
        Field("wgt", WGT, "GEMM: weight element"),
    ),
    total_bits=UOP_BITS,
    word_bits=UOP_BITS,
)

FORMATS = (BARE, LOAD, STORE, GEMM, ALU, UOP_FORMAT)


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


@dataclass(frozen=True, slots=True)
class Misfit:
    """A field that a machine makes too wide: it ends ``over`` bits beyond the ``limit`` bits that its format has.

    ``memory`` is the scratchpad whose depth sets the field's width, or None when no single one does.
    """

    format: str
    field: str
    memory: str | None
    limit: int
    over: int


def misfit(machine: IndexWidths) -> Misfit | None:
    """The first field that does not fit the machine's instructions or micro-ops, or None when all fit."""
    for form in FORMATS:
        end_before = 0
        for placement in place(form.fields, form.word_bits, machine):
            end = max(placement.lsb + placement.width, end_before)
            if end > form.total_bits:
                # Counted from the end of the field before: the bits that must be saved, not the word that is begun.
                over = end_before + placement.width - form.total_bits
                field = placement.field
                return Misfit(form.name, field.name, _memory_behind(field), form.total_bits, over)
            end_before = end
    sram_base = next(field for field in LOAD.fields if field.name == "sram_base")
    limit = sram_base.width.of(machine)
    depths = {
        "uop": machine.uop_index_bits,
        "inp": machine.inp_index_bits,
        "wgt": machine.wgt_index_bits,
        "acc": machine.acc_index_bits,
    }
    memory, widest = max(depths.items(), key=lambda item: item[1])
    return Misfit(LOAD.name, sram_base.name, memory, limit, widest - limit) if widest > limit else None


def _memory_behind(field: Field) -> str | None:
    return {UOP.text: "uop", UOP_END.text: "uop", INP.text: "inp", WGT.text: "wgt", ACC.text: "acc"}.get(
        field.width.text
    )
