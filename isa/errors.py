"""User errors of the instruction set."""

from typing import Any

from lathe.configs import LatheError
from lathe.isa.fault import FaultCode


class EncodingError(LatheError):
    """An instruction or micro-op that the binary encoding cannot represent, or bytes that encode none."""


class InvalidInstructionError(EncodingError):
    """Bytes that encode no instruction; ``instruction`` is their index in the stream, ``code`` the machine's fault."""

    def __init__(self, message: str, *, instruction: int, code: FaultCode) -> None:
        super().__init__(message)
        self.instruction = instruction
        self.code = code


class AssemblyError(LatheError):
    """Assembly text that is not an instruction of the machine; ``line`` counts from 1, and is 0 without a text."""

    def __init__(self, message: str, *, line: int) -> None:
        super().__init__(message)
        self.line = line


class LayoutError(LatheError):
    """A layout that loses values, or an array that does not have the layout's shape or dtype."""


class ProgramError(LatheError):
    """A program whose components contradict each other, or a file that does not contain a program."""


class MachineFault(LatheError):  # noqa: N818 - the field's term
    """A fault of the machine: an index out of range, a deadlock, a token to no neighbour.

    ``code`` is the value of the status register. ``cycle``: the clock cycle of detection, from 0; None in untimed
    engines. ``instruction``: the index in the stream of the faulting instruction, None when there is none or the engine
    does not know it.
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
