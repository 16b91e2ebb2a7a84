"""What a row of the instruction table says of an instruction: fields, unit, operands, issue cycles, extension."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from lathe.configs.encoding import Format
from lathe.configs.field_expressions import Expression, Number
from lathe.configs.instructions.codes import MemoryType, Opcode, Unit

ALWAYS, NEVER = Number(1), Number(0)


class Kind(IntEnum):
    """How an instruction occupies its unit."""

    ISSUE = 0  # micro-ops in two loops: issue cycles, then the pipeline
    TRANSFER = 1  # rows of DRAM to or from a dense block of a scratchpad
    FINISH = 2  # not at all: it marks the end of the stream


@dataclass(frozen=True, slots=True)
class MicroOpIndex:
    """A scratchpad operand of micro-ops: an index field of the micro-op, advanced by the strides of the two loops.

    ``name``: "dst", "src" or "wgt"; ``memory``: the scratchpad; ``read``: whether an instruction reads the vector;
    ``written``: whether instructions write it, whatever their fields hold. An index that is neither read nor written is
    not checked and may have any value. ``strides_of``: the index whose loop strides advance it, by default its own.

    ``odd``: whether an instruction also reads the vector at the index with its lowest bit set. The scratchpad of such
    an index has an even depth, so that this vector is in range if the index is.
    """

    name: str
    memory: MemoryType
    read: Expression = ALWAYS
    written: bool = False
    strides_of: str = ""
    odd: Expression = NEVER


@dataclass(frozen=True, slots=True)
class Block:
    """``elements`` consecutive vectors of a scratchpad, any of which every micro-op of an instruction may read.

    Field ``name`` counts in blocks and has exactly the bits for the existing ones. ``read``: whether it is read.
    """

    name: str
    memory: MemoryType
    elements: int
    read: Expression


@dataclass(frozen=True, slots=True)
class Row:
    """One instruction.

    ``type``: its dataclass, with a field for each of ``format`` but the opcode; ``unit``: the unit that executes it,
    None for the unit that loads its memory type; ``what`` and ``meaning``, for the manual: a description and a program.
    The program of an instruction with micro-ops is that of one micro-op, once its indices have been computed.

    An instruction that runs micro-ops has ``indices``, in the order in which a micro-op accesses them; exactly one is
    written, an accumulator. A micro-op issues for ``issue_cycles``: it accesses one index in each, and all remaining
    ones in the last. It may also read ``blocks``. ``extra_latency`` is the latency of its results beyond that of other
    instructions: that many idle cycles follow its last micro-op, and no issue cycle may read an accumulator that one of
    that many preceding issue cycles writes.

    An instruction that transfers rows ``stores`` them to DRAM, or else loads them. ``extension``: the extension that it
    requires of a machine, and ``purpose``: why a program uses that.
    """

    type: type[Any]
    format: Format
    kind: Kind
    unit: Unit | None
    what: str
    meaning: str
    indices: tuple[MicroOpIndex, ...] = ()
    blocks: tuple[Block, ...] = ()
    issue_cycles: Expression = ALWAYS
    extra_latency: Expression = NEVER
    stores: bool = False
    extension: str | None = None
    purpose: str = ""

    def __post_init__(self) -> None:
        assert bool(self.extension) == bool(self.purpose), f"extension {self.extension}, purpose {self.purpose!r}"
        written = [index.memory for index in self.indices if index.written]
        assert written == [MemoryType.ACC] * (self.kind is Kind.ISSUE), f"{self.opcode.name} writes {written}"
        # Written and read indices then differ equally between loop iterations, so that a few iterations show all
        # hazards.
        strides = {index.strides_of or index.name for index in self.indices if index.memory is MemoryType.ACC}
        assert self.extra_latency == NEVER or len(strides) == 1, (
            f"accumulators of {self.opcode.name} advance by {strides}"
        )

    @property
    def opcode(self) -> Opcode:
        """The code of the instruction."""
        opcode: Opcode = self.type.opcode
        return opcode


class TransferInstruction(Protocol):
    """An instruction that transfers rows."""

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
    """An instruction that runs micro-ops; its row lists its strides."""

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
