"""Errors that a user of the instruction set can cause."""

from typing import Any

from lathe.configs import LatheError
from lathe.isa.fault import FaultCode


class EncodingError(LatheError):
    """An instruction or micro-op that the binary encoding cannot hold, or bytes that encode none."""


class NoInstructionError(EncodingError):
    """Bytes that encode no instruction; ``instruction`` is their place in the stream, ``code`` the machine's fault."""

    def __init__(self, message: str, *, instruction: int, code: FaultCode) -> None:
        super().__init__(message)
        self.instruction = instruction
        self.code = code


class AssemblyError(LatheError):
    """Assembly text that is not an instruction of the machine; ``line`` counts from 1; 0 where there is no text."""

    def __init__(self, message: str, *, line: int) -> None:
        super().__init__(message)
        self.line = line


class LayoutError(LatheError):
    """A layout that loses values, or an array that does not have the layout's shape or dtype."""


class ProgramError(LatheError):
    """A program whose parts contradict each other, or a file that holds no program."""


class MachineFault(LatheError):  # noqa: N818 - the field's word for it
    """What a machine does not carry out: an index out of range, a deadlock, a token of no neighbour.

    ``code`` is what the status register holds then. ``cycle``: when the machine notices it, counted from 0, None where
    nothing counts cycles. ``instruction``: the place in the stream of the one to blame, None when there is none or the
    engine does not tell.
    """

    def __init__(
        self, message: str, code: FaultCode, *, instruction: int | None = None, cycle: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.instruction = instruction
        self.cycle = cycle

    def __reduce__(self) -> tuple[Any, ...]:
        state = {"instruction": self.instruction, "cycle": self.cycle}
        return type(self), (str(self), self.code), state
