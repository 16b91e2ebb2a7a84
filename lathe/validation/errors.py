"""What validation reports."""

from lathe.configs import LatheError


class ValidationError(LatheError):
    """An instruction stream that does not compute what its program says.

    The message names the instruction in assembly text, its chunk, the cell, what was expected there and what is there.
    If every emission rule is Lathe's own, it is a fault of the compiler.
    """
