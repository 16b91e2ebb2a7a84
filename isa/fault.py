"""Fault codes: why a machine stops, as its status register and the simulator's fault tell it; and errors of the bus."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal


class FaultCode(IntEnum):
    """The fault field of the status register."""

    NONE = 0
    OPCODE = 1
    MEMORY_TYPE = 2
    ALU_OPCODE = 3
    NO_NEIGHBOUR = 4
    STORE_PADDING = 5
    SRAM_RANGE = 6
    UOP_RANGE = 7
    ACC_RANGE = 8
    INP_RANGE = 9
    WGT_RANGE = 10
    TOKEN_OVERFLOW = 11
    READ_ERROR = 12
    WRITE_ERROR = 13
    DEADLOCK = 14
    NO_FINISH = 15
    STREAM_WRITE = 16
    PAR_RANGE = 17
    ACC_REUSE = 18


MEANINGS = {
    FaultCode.NONE: "no fault",
    FaultCode.OPCODE: "an instruction's opcode is none of the machine's, or asks for what the machine is without",
    FaultCode.MEMORY_TYPE: "a LOAD or STORE of a memory type that no unit moves",
    FaultCode.ALU_OPCODE: "an ALU instruction's operation is none that the machine has",
    FaultCode.NO_NEIGHBOUR: "a pop or push names no neighbour of the unit",
    FaultCode.STORE_PADDING: "a STORE with padding",
    FaultCode.SRAM_RANGE: "a LOAD or STORE beyond its scratchpad",
    FaultCode.UOP_RANGE: "a micro-op range past the end of the uop scratchpad",
    FaultCode.ACC_RANGE: "an accumulator index past the end",
    FaultCode.INP_RANGE: "an input index past the end",
    FaultCode.WGT_RANGE: "a weight index past the end",
    FaultCode.TOKEN_OVERFLOW: "a token queue got more than 65,535 tokens",
    FaultCode.READ_ERROR: "the memory answered a read with an error",
    FaultCode.WRITE_ERROR: "the memory answered a write with an error",
    FaultCode.DEADLOCK: "every unit waits for a token or a command that never comes",
    FaultCode.NO_FINISH: "the stream has ended without a FINISH",
    FaultCode.STREAM_WRITE: "a STORE to the stream that is running",
    FaultCode.PAR_RANGE: "a parameter index past the end",
    FaultCode.ACC_REUSE: "a step reads an accumulator whose new value is not there yet",
}


@dataclass(frozen=True)
class BusError:
    """An error answer of the memory, for tests of what follows: to the read beat or to the write burst with this
    ``number``, counted from 0 over all masters. A number that a launch does not reach changes nothing.
    """

    channel: Literal["read", "write"]
    number: int
