"""The table of ALU operations: codes, results, and the extensions that some belong to.

It stands in this room, beside the formats, because a machine says which operations it has: its extensions are checked
when it is made. What an operation computes is in :mod:`lathe.isa.arithmetic`, and the gates are in
:mod:`lathe.rtl.alu`. A micro-op takes one step with an immediate and two with an accumulator as the second operand;
an operation whose result is not there in time for a micro-op that follows at once has the steps in its row besides.
"""

from enum import IntEnum


class AluOp(IntEnum):
    """What an ALU instruction computes: a row each of code, result for the manual, waits, and, if not VTA's own,
    extension and its purpose.

    ``waits`` are steps for which the next micro-op waits for the result, which it may read. A machine without an
    operation's extension refuses it; ``purpose``: why a program makes use of it, the same in all rows of one extension.
    """

    result: str
    waits: int
    extension: str | None
    purpose: str

    def __new__(
        cls, code: int, result: str = "", waits: int = 0, extension: str | None = None, purpose: str = ""
    ) -> "AluOp":
        """The row as a number with attributes."""
        assert bool(extension) == bool(purpose), f"extension {extension} of operation {code} is for {purpose!r}"
        made = int.__new__(cls, code)
        made._value_, made.result, made.waits = code, result, waits
        made.extension, made.purpose = extension, purpose
        return made

    MIN = 0, "the lesser of the two"
    MAX = 1, "the greater of the two"
    ADD = 2, "the sum, wrapping around at 32 bits"
    SHR = 3, "the first shifted right by the second, arithmetically; by a negative number: shifted left"
    MUL = 4, "the product, wrapping around at 32 bits", 1
    SUB = (
        5,
        "the first less the second, wrapping around at 32 bits",
        0,
        "alu_sub",
        "a difference is one operation, without a multiplication by -1 before",
    )
