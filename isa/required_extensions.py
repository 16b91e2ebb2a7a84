"""Which extensions an instruction makes use of."""

from functools import lru_cache

from lathe.configs import HardwareConfig
from lathe.isa.instructions import Alu, Instruction, Load, Store
from lathe.isa.table import MEMORIES, TABLE, AluOp, MemoryType, Opcode, placements


def extensions_of(config: HardwareConfig, instruction: Instruction) -> tuple[str, ...]:
    """The extensions without which machine ``config`` could not carry the instruction out, in alphabetical order.

    They are those of the instruction itself, of the memory that it moves or the operation that it computes, and of its
    fields that are not 0.
    """
    found = {TABLE[instruction.opcode].extension}
    found |= {extension for name, extension in _fields(config, instruction.opcode) if getattr(instruction, name)}
    if isinstance(instruction, Load | Store):
        found.add(MEMORIES[MemoryType(instruction.memory_type)].extension)
    if isinstance(instruction, Alu):
        found.add(AluOp(instruction.alu_opcode).extension)
    return tuple(sorted(each for each in found if each is not None))


@lru_cache(maxsize=256)
def _fields(config: HardwareConfig, opcode: Opcode) -> tuple[tuple[str, str], ...]:
    """The fields that must be 0 without an extension, or of which there is nothing without it."""
    plain = config.with_(extensions=(), par_buffer_bytes=0, lut_buffer_bytes=0)
    return tuple(
        (name, place.field.width.extension)
        for name, place in placements(plain, opcode).items()
        if place.field.width.extension is not None and (not place.width or place.field.width.always is not None)
    )
