"""Errors that a user of the instruction set can cause."""

from lathe.configs import LatheError


class EncodingError(LatheError):
    """An instruction or micro-op that the binary encoding cannot hold, or bytes that encode none."""


class AssemblyError(LatheError):
    """Assembly text that is not an instruction of the machine; ``line`` counts from 1."""

    def __init__(self, message: str, *, line: int) -> None:
        super().__init__(message)
        self.line = line


class LayoutError(LatheError):
    """A layout that loses values, or an array that does not have the layout's shape or dtype."""


class ProgramError(LatheError):
    """A program whose parts contradict each other, or a file that holds no program."""


class MachineFault(LatheError):  # noqa: N818 - the field's word for it
    """What a machine does not carry out: an index out of range, a deadlock, a token of no neighbour."""
