"""Fault codes, which the status register and the simulator report when a machine stops; and injected bus errors."""

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


FAULT_DESCRIPTIONS = {
    FaultCode.NONE: "no fault",
    FaultCode.OPCODE: "the machine lacks an instruction's opcode, or an extension that one of its fields requires",
    FaultCode.MEMORY_TYPE: "a LOAD or STORE of a memory type that no unit transfers",
    FaultCode.ALU_OPCODE: "the machine lacks an ALU instruction's operation",
    FaultCode.NO_NEIGHBOUR: "a pop or push in a direction without a neighbouring unit",
    FaultCode.STORE_PADDING: "a STORE with padding",
    FaultCode.SRAM_RANGE: "a LOAD or STORE past the end of its scratchpad",
    FaultCode.UOP_RANGE: "a micro-op range past the end of the uop scratchpad",
    FaultCode.ACC_RANGE: "an accumulator index past the end",
    FaultCode.INP_RANGE: "an input index past the end",
    FaultCode.WGT_RANGE: "a weight index past the end",
    FaultCode.TOKEN_OVERFLOW: "a token queue received more than 65,535 tokens",
    FaultCode.READ_ERROR: "the memory answered a read with an error",
    FaultCode.WRITE_ERROR: "the memory answered a write with an error",
    FaultCode.DEADLOCK: "every unit waits for a token or a command that never comes",
    FaultCode.NO_FINISH: "the stream has ended without a FINISH",
    FaultCode.STREAM_WRITE: "a STORE to the running instruction stream",
    FaultCode.PAR_RANGE: "a parameter index past the end",
    FaultCode.ACC_REUSE: "a micro-op reads an accumulator whose new value is not written back yet",
}


@dataclass(frozen=True)
class BusError:
    """An error response of the memory, injected for tests: to the read beat or write burst ``number``.

    Numbers count from 0 over all masters. A number that a launch does not reach has no effect.
    """

    channel: Literal["read", "write"]
    number: int
