"""The table of ALU operations: codes, results, latencies and extensions.

It is in this package, with the formats, because a configuration selects operations by its extensions, which are checked
when it is constructed. :mod:`lathe.isa.arithmetic` computes the operations, :mod:`lathe.rtl.alu` is their hardware. A
micro-op issues in one cycle with an immediate and in two with an accumulator as the second operand; an operation whose
result would be late for the next micro-op adds the ``waits`` of its row.
"""

from enum import IntEnum


class AluOp(IntEnum):
    """The operation of an ALU instruction: a row of code, result for the manual, waits, and the extension with its
    purpose.

    ``waits`` are extra cycles before the next micro-op, which may read the result. A machine without an operation's
    ``extension`` (None: VTA has it) refuses it. ``purpose`` is why a program uses the extension, equal in all its rows.
    """

    result: str
    waits: int
    extension: str | None
    purpose: str

    def __new__(
        cls, code: int, result: str = "", waits: int = 0, extension: str | None = None, purpose: str = ""
    ) -> "AluOp":
        """The row as an integer with attributes."""
        assert bool(extension) == bool(purpose), f"operation {code}: extension {extension!r}, purpose {purpose!r}"
        operation = int.__new__(cls, code)
        operation._value_, operation.result, operation.waits = code, result, waits
        operation.extension, operation.purpose = extension, purpose
        return operation

    MIN = 0, "the smaller of the two"
    MAX = 1, "the larger of the two"
    ADD = 2, "the sum, wrapping around at 32 bits"
    SHR = 3, "the first shifted right arithmetically by the second; a negative second shifts left"
    MUL = 4, "the product, wrapping around at 32 bits", 1
    SUB = (
        5,
        "the first minus the second, wrapping around at 32 bits",
        0,
        "alu_sub",
        "a subtraction is one operation, without a prior multiplication by -1",
    )
