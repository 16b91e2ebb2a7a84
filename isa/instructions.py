"""Instructions as values: the frozen dataclasses of the table's rows, and tables of their fields."""

from dataclasses import fields
from enum import IntEnum
from typing import Any, TypeGuard

from lathe.configs.instructions import Instruction
from lathe.configs.instructions.alu import Alu
from lathe.configs.instructions.finish import Finish
from lathe.configs.instructions.gemm import Gemm
from lathe.configs.instructions.load import Load
from lathe.configs.instructions.rescale import Rescale
from lathe.configs.instructions.row import MicroOpInstruction, TransferInstruction
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
    "Store",
    "TransferInstruction",
    "describe_instruction",
    "is_transfer",
    "loads_micro_ops",
    "runs_micro_ops",
    "unit_of",
]

CLASS_OF: dict[Opcode, type[Instruction]] = {opcode: row.type for opcode, row in TABLE.items()}

_TYPES: dict[str, Any] = {field.name: field.type for kind in CLASS_OF.values() for field in fields(kind)}

# Boolean one-bit fields.
FLAGS = frozenset(name for name, kind in _TYPES.items() if kind is bool)

# Fields that hold a code of an enum, and the enum; an instruction has at most one.
CODES: dict[str, type[IntEnum]] = {name: kind for name, kind in _TYPES.items() if issubclass(kind, IntEnum)}

# The names of each class's fields, in declaration order.
FIELDS_OF: dict[Opcode, tuple[str, ...]] = {
    opcode: tuple(field.name for field in fields(kind)) for opcode, kind in CLASS_OF.items()
}


def is_transfer(instruction: Instruction) -> TypeGuard[TransferInstruction]:
    """Whether an instruction transfers rows between DRAM and a scratchpad."""
    return TABLE[instruction.opcode].kind is Kind.TRANSFER


def loads_micro_ops(instruction: object) -> TypeGuard[Load]:
    """Whether an instruction loads micro-ops."""
    return isinstance(instruction, Load) and instruction.memory_type == MemoryType.UOP


def runs_micro_ops(instruction: Instruction) -> TypeGuard[MicroOpInstruction]:
    """Whether an instruction runs micro-ops."""
    return TABLE[instruction.opcode].kind is Kind.ISSUE


def unit_of(instruction: Instruction) -> Unit:
    """The unit to whose command queue fetch dispatches an instruction."""
    unit = TABLE[instruction.opcode].unit
    if unit is not None:
        return unit
    assert is_transfer(instruction), f"{instruction.opcode.name} has no unit"
    return MEMORIES[instruction.memory_type].load_unit


def describe_instruction(index: int, instruction: Instruction) -> str:
    """An instruction of a stream, for messages."""
    return f"instruction {index} ({instruction.opcode.name} in {unit_of(instruction).name.lower()})"
