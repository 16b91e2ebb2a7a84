"""The extensions that an instruction requires."""

from functools import lru_cache

from lathe.configs import HardwareConfig
from lathe.isa.instructions import Alu, Instruction, Load, Store
from lathe.isa.table import MEMORIES, TABLE, AluOp, MemoryType, Opcode, placements


def extensions_of(config: HardwareConfig, instruction: Instruction) -> tuple[str, ...]:
    """The extensions without which machine ``config`` could not execute the instruction, in alphabetical order.

    They are those of the instruction itself, of its memory type or ALU operation, and of its non-zero fields.
    """
    extensions = {TABLE[instruction.opcode].extension}
    extensions |= {extension for name, extension in _fields(config, instruction.opcode) if getattr(instruction, name)}
    if isinstance(instruction, Load | Store):
        extensions.add(MEMORIES[MemoryType(instruction.memory_type)].extension)
    if isinstance(instruction, Alu):
        extensions.add(AluOp(instruction.alu_opcode).extension)
    return tuple(sorted(each for each in extensions if each is not None))


@lru_cache(maxsize=256)
def _fields(config: HardwareConfig, opcode: Opcode) -> tuple[tuple[str, str], ...]:
    """The fields that must be 0, or that do not exist, without an extension."""
    plain = config.with_(extensions=(), par_buffer_bytes=0, lut_buffer_bytes=0)
    return tuple(
        (name, place.field.width.extension)
        for name, place in placements(plain, opcode).items()
        if place.field.width.extension is not None and (not place.width or place.field.width.always is not None)
    )
