"""The numbers by which instructions, memories and units are told apart."""

from enum import IntEnum


class Opcode(IntEnum):
    """What an instruction does; 6 and 7 are free."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4
    RESCALE = 5


class MemoryType(IntEnum):
    """What a LOAD or STORE moves: the scratchpad, and how DRAM holds its elements."""

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    ACC8 = 5
    PAR = 6
    LUT = 7


class Unit(IntEnum):
    """The units that execute instructions, in the order that "prev" and "next" of the token fields mean."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2
