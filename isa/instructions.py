"""Instructions as values: the frozen classes of the table's rows, and what their fields are."""

from dataclasses import fields
from enum import IntEnum
from typing import Any, TypeGuard

from lathe.configs.instructions import Instruction
from lathe.configs.instructions.alu import Alu
from lathe.configs.instructions.finish import Finish
from lathe.configs.instructions.gemm import Gemm
from lathe.configs.instructions.load import Load
from lathe.configs.instructions.rescale import Rescale
from lathe.configs.instructions.row import MicroOpInstruction, RowsInstruction
from lathe.configs.instructions.store import Store
from lathe.isa.table import MEMORIES, TABLE, Kind, MemoryType, Opcode, Unit

__all__ = [
    "CLASS_OF",
    "CODES",
    "FIELDS_OF",
    "FLAGS",
    "Alu",
    "Finish",
    "Gemm",
    "Instruction",
    "Load",
    "MicroOpInstruction",
    "Rescale",
    "RowsInstruction",
    "Store",
    "loads_micro_ops",
    "moves_rows",
    "place",
    "runs_micro_ops",
    "unit_of",
]

CLASS_OF: dict[Opcode, type[Instruction]] = {opcode: row.type for opcode, row in TABLE.items()}

_TYPES: dict[str, Any] = {field.name: field.type for kind in CLASS_OF.values() for field in fields(kind)}

# Fields of one bit that are on or off.
FLAGS = frozenset(name for name, kind in _TYPES.items() if kind is bool)

# Fields that hold a code of a table, and the table; an instruction has one at most.
CODES: dict[str, type[IntEnum]] = {name: kind for name, kind in _TYPES.items() if issubclass(kind, IntEnum)}

# The names of each class's fields, in its order.
FIELDS_OF: dict[Opcode, tuple[str, ...]] = {
    opcode: tuple(field.name for field in fields(kind)) for opcode, kind in CLASS_OF.items()
}


def moves_rows(instruction: Instruction) -> TypeGuard[RowsInstruction]:
    """Whether an instruction moves rows between DRAM and a scratchpad."""
    return TABLE[instruction.opcode].kind is Kind.TRANSFER


def loads_micro_ops(instruction: object) -> TypeGuard[Load]:
    """Whether an instruction brings micro-ops to their scratchpad."""
    return isinstance(instruction, Load) and instruction.memory_type == MemoryType.UOP


def runs_micro_ops(instruction: Instruction) -> TypeGuard[MicroOpInstruction]:
    """Whether an instruction runs micro-ops."""
    return TABLE[instruction.opcode].kind is Kind.ISSUE


def unit_of(instruction: Instruction) -> Unit:
    """The unit whose command queue fetch puts an instruction into."""
    unit = TABLE[instruction.opcode].unit
    if unit is not None:
        return unit
    assert moves_rows(instruction), f"{instruction.opcode.name} has no unit"
    return MEMORIES[instruction.memory_type].load_unit


def place(index: int, instruction: Instruction) -> str:
    """How messages name an instruction of a stream."""
    return f"instruction {index} ({instruction.opcode.name} in {unit_of(instruction).name.lower()})"
