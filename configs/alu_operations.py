"""The table of ALU operations: codes, results, and the extensions that some belong to.

It stands in this room, beside the formats, because a machine says which operations it has: its extensions are checked
when it is made. What an operation computes is in :mod:`lathe.isa.arithmetic`, and the gates are in
:mod:`lathe.rtl.alu`. A micro-op takes one step with an immediate and two with an accumulator as the second operand;
an operation whose result is not there in time for a micro-op that follows at once has the steps in its row besides.
"""

from enum import IntEnum


class AluOp(IntEnum):
    """What an ALU instruction computes: a row each of code, result for the manual, extension, if not VTA's own, and
    waits.

    ``waits`` are steps for which the next micro-op waits for the result, which it may read. A machine without an
    operation's extension refuses it.
    """

    result: str
    extension: str | None
    waits: int

    def __new__(cls, code: int, result: str = "", extension: str | None = None, waits: int = 0) -> "AluOp":
        """The row as a number with attributes."""
        made = int.__new__(cls, code)
        made._value_, made.result, made.extension, made.waits = code, result, extension, waits
        return made

    MIN = 0, "the lesser of the two"
    MAX = 1, "the greater of the two"
    ADD = 2, "the sum, wrapping around at 32 bits"
    SHR = 3, "the first shifted right by the second, arithmetically; by a negative number: shifted left"
    MUL = 4, "the product, wrapping around at 32 bits", None, 1
    SUB = 5, "the first less the second, wrapping around at 32 bits", "alu_sub"
