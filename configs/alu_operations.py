"""The table of ALU operations: codes, results, and the extensions that some belong to.

It stands in this room, beside the formats, because a machine says which operations it has: its extensions are checked
when it is made. What an operation computes is in :mod:`lathe.isa.arithmetic`, and the gates are in
:mod:`lathe.rtl.alu`. All operations take the same time: one step for each micro-op with an immediate, two with an
accumulator as the second operand.
"""

from enum import IntEnum


class AluOp(IntEnum):
    """What an ALU instruction computes: a row each of code, result for the manual, and extension, if not VTA's own.

    A machine without an operation's extension refuses it.
    """

    result: str
    extension: str | None

    def __new__(cls, code: int, result: str = "", extension: str | None = None) -> "AluOp":
        """The row as a number with attributes."""
        made = int.__new__(cls, code)
        made._value_, made.result, made.extension = code, result, extension
        return made

    MIN = 0, "the lesser of the two"
    MAX = 1, "the greater of the two"
    ADD = 2, "the sum, wrapping around at 32 bits"
    SHR = 3, "the first shifted right by the second, arithmetically; by a negative number: shifted left"
    MUL = 4, "the product, wrapping around at 32 bits"
    SUB = 5, "the first less the second, wrapping around at 32 bits", "alu_sub"
