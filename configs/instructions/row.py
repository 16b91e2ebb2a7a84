"""What a row of the instruction table says."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from lathe.configs.encoding import Format
from lathe.configs.field_expressions import Expression, Number
from lathe.configs.instructions.codes import MemoryType, Opcode, Unit

ALWAYS, NEVER = Number(1), Number(0)


class Kind(IntEnum):
    """How an instruction occupies its unit."""

    ISSUE = 0  # micro-ops in two loops: steps, then the pipeline
    TRANSFER = 1  # rows of DRAM to or from a dense block of a scratchpad
    FINISH = 2  # nothing: the end of the stream


@dataclass(frozen=True, slots=True)
class MicroOpIndex:
    """An element that micro-ops name with one of their indices, moved on by factors of the loops.

    ``name``: "dst", "src" or "wgt"; ``memory``: where the element is; ``read``: whether an instruction reads it;
    ``written``: whether instructions write it, whatever their fields hold. One that is neither read nor written is not
    looked at, and may hold anything. ``moved_by``: the index whose factors move it, by default its own.

    ``odd``: whether an instruction also reads the element of the index with its lowest bit set. The scratchpad of such
    an index has an even depth, so that it lies within if the index does.
    """

    name: str
    memory: MemoryType
    read: Expression = ALWAYS
    written: bool = False
    moved_by: str = ""
    odd: Expression = NEVER


@dataclass(frozen=True, slots=True)
class Block:
    """``elements`` elements of a memory, of which every micro-op of an instruction may read any.

    Field ``name`` counts in blocks; it has just the bits for those that there are. ``read``: whether it is read.
    """

    name: str
    memory: MemoryType
    elements: int
    read: Expression


@dataclass(frozen=True, slots=True)
class Row:
    """One instruction.

    ``type``: the class of its values, with a field for each of ``format`` but the opcode; ``unit``: who carries it out,
    None for the one that loads its memory type; ``what`` and ``meaning``, a program: for the manual. Of micro-ops the
    meaning says what is written, after the indices have been found.

    An instruction that runs micro-ops has ``indices``, in the order in which a micro-op looks at them, of which one is
    written: an accumulator. A micro-op takes so many ``steps``, and looks at one index in each, and in the last at all
    that remain. It may read ``blocks``, too. Its results are written ``trailing`` steps later than those of others: at
    its end come so many that do nothing, and none of its steps may read an accumulator that one of so many steps before
    writes.

    One that moves rows ``stores`` them in DRAM, or else loads them. ``extension``: what a machine must have for it, and
    ``purpose`` why a program makes use of that.
    """

    type: type[Any]
    format: Format
    kind: Kind
    unit: Unit | None
    what: str
    meaning: str
    indices: tuple[MicroOpIndex, ...] = ()
    blocks: tuple[Block, ...] = ()
    steps: Expression = ALWAYS
    trailing: Expression = NEVER
    stores: bool = False
    extension: str | None = None
    purpose: str = ""

    def __post_init__(self) -> None:
        assert bool(self.extension) == bool(self.purpose), f"extension {self.extension} is for {self.purpose!r}"
        written = [index.memory for index in self.indices if index.written]
        assert written == [MemoryType.ACC] * (self.kind is Kind.ISSUE), f"{self.opcode.name} writes {written}"
        # Then iterations of the loops differ alike in what is written and read, and a few show whether steps meet.
        alike = {index.moved_by or index.name for index in self.indices if index.memory is MemoryType.ACC}
        assert self.trailing == NEVER or len(alike) == 1, f"accumulators of {self.opcode.name} move by {alike}"

    @property
    def opcode(self) -> Opcode:
        """The code of the instruction."""
        opcode: Opcode = self.type.opcode
        return opcode


class RowsInstruction(Protocol):
    """An instruction that moves rows."""

    @property
    def opcode(self) -> Opcode: ...
    @property
    def memory_type(self) -> MemoryType: ...
    @property
    def sram_base(self) -> int: ...
    @property
    def dram_base(self) -> int: ...
    @property
    def y_size(self) -> int: ...
    @property
    def x_size(self) -> int: ...
    @property
    def x_stride(self) -> int: ...
    @property
    def y_pad_0(self) -> int: ...
    @property
    def y_pad_1(self) -> int: ...
    @property
    def x_pad_0(self) -> int: ...
    @property
    def x_pad_1(self) -> int: ...


class MicroOpInstruction(Protocol):
    """An instruction that runs micro-ops; its row says which factors of the loops it has besides."""

    @property
    def opcode(self) -> Opcode: ...
    @property
    def uop_bgn(self) -> int: ...
    @property
    def uop_end(self) -> int: ...
    @property
    def iter_out(self) -> int: ...
    @property
    def iter_in(self) -> int: ...
