"""Instructions as values: one frozen class for each row of the table."""

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, ClassVar

from lathe.isa.table import MEMORIES, AluOp, MemoryType, Opcode, Unit


@dataclass(frozen=True, slots=True)
class Load:
    """Copy ``y_size`` rows of ``x_size`` elements from DRAM to a dense block at ``sram_base``, padding around them.

    ``dram_base`` and ``x_stride`` count elements of the memory type; pads count rows and elements of padding. Padding
    holds zeros, and on machines with the extension "pad_value" what :attr:`padding` says.
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
        """The value that padding holds: 0 for micro-ops, whatever the fields say."""
        if self.memory_type == MemoryType.UOP:
            return 0
        if self.pad_limit and self.memory_type in (MemoryType.ACC, MemoryType.ACC8):
            return -(1 << 31) if self.pad_value < 0 else (1 << 31) - 1
        return self.pad_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Copy a dense block of the out view at ``sram_base`` to ``y_size`` rows of ``x_size`` elements in DRAM.

    The encoding has room for other memory types and for pads, which no machine carries out; they are here so that
    every encoded instruction can be named and refused.
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


@dataclass(frozen=True, slots=True)
class Gemm:
    """Run micro-ops [``uop_bgn``, ``uop_end``) in two loops: acc[dst] += inp[src] · wgt[wgt]ᵀ, or 0 if ``reset``.

    With ``begin``, on machines with the extension "gemm_begin", acc[dst] = inp[src] · wgt[wgt]ᵀ; ``reset`` is stronger.
    """

    opcode: ClassVar[Opcode] = Opcode.GEMM

    uop_bgn: int
    uop_end: int
    iter_out: int
    iter_in: int
    dst_factor_out: int
    dst_factor_in: int
    src_factor_out: int
    src_factor_in: int
    wgt_factor_out: int
    wgt_factor_in: int
    reset: bool = False
    begin: bool = False
    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False

    @property
    def overwrites(self) -> bool:
        """Whether accumulators are written whatever they hold."""
        return self.reset or self.begin


@dataclass(frozen=True, slots=True)
class Alu:
    """Run micro-ops [``uop_bgn``, ``uop_end``) in two loops: acc[dst] = op(acc[dst], ``imm`` or acc[src]).

    ``reset`` is a bit that the encoding shares with GEMM and that ALU ignores.
    """

    opcode: ClassVar[Opcode] = Opcode.ALU

    alu_opcode: AluOp
    uop_bgn: int
    uop_end: int
    iter_out: int
    iter_in: int
    dst_factor_out: int
    dst_factor_in: int
    src_factor_out: int
    src_factor_in: int
    use_imm: bool = False
    imm: int = 0
    reset: bool = False
    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False


@dataclass(frozen=True, slots=True)
class Finish:
    """Mark the end of the stream in compute."""

    opcode: ClassVar[Opcode] = Opcode.FINISH

    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False


Instruction = Load | Store | Gemm | Alu | Finish

CLASS_OF: dict[Opcode, type[Instruction]] = {kind.opcode: kind for kind in (Load, Store, Gemm, Alu, Finish)}

_TYPES: dict[str, Any] = {field.name: field.type for kind in CLASS_OF.values() for field in fields(kind)}

# Fields of one bit that are on or off.
FLAGS = frozenset(name for name, kind in _TYPES.items() if kind is bool)

# Fields that hold a code of a table, and the table; an instruction has one at most.
CODES: dict[str, type[IntEnum]] = {name: kind for name, kind in _TYPES.items() if issubclass(kind, IntEnum)}

# The names of each class's fields, in its order.
FIELDS_OF: dict[Opcode, tuple[str, ...]] = {
    opcode: tuple(field.name for field in fields(kind)) for opcode, kind in CLASS_OF.items()
}


def unit_of(instruction: Instruction) -> Unit:
    """The unit whose command queue fetch puts an instruction into."""
    if isinstance(instruction, Load):
        return MEMORIES[instruction.memory_type].load_unit
    return Unit.STORE if isinstance(instruction, Store) else Unit.COMPUTE


def place(index: int, instruction: Instruction) -> str:
    """How messages name an instruction of a stream."""
    return f"instruction {index} ({instruction.opcode.name} in {unit_of(instruction).name.lower()})"
