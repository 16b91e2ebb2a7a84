"""Numeric codes of instructions, memory types and units."""

from enum import IntEnum


class Opcode(IntEnum):
    """The code of an instruction; 6 and 7 are free."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4
    RESCALE = 5


class MemoryType(IntEnum):
    """What a LOAD or STORE transfers: the scratchpad, and the format of its vectors in DRAM."""

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC8 = 5
    PAR = 6
    LUT = 7


class Unit(IntEnum):
    """The units that execute instructions, in the order that "prev" and "next" in names of token fields refer to."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2
