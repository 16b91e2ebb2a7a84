"""The mistakes that a tensor program can hold."""

from lathe.configs.array_args import InputError
from lathe.configs.errors import LatheError, shown

__all__ = ["CausalityError", "DomainError", "InputError", "LatheError", "TensorError", "shown"]


class TensorError(LatheError):
    """A tensor, an axis or an expression was put together wrongly: dtype, shape, number of indices, name."""


class DomainError(LatheError):
    """A computation reads outside the domain of the tensor that it reads; the message names one such point."""


class ParameterError(LatheError):
    """The values given for the parameters of a program do not fit: missing, unknown, out of range."""


class CausalityError(LatheError):
    """Computations that need each other have no order in which each element is made before it is read.

    ``reader`` is the name of a computation and the point at which it reads, ``cell`` a tensor and the cell read there.
    """

    def __init__(
        self,
        message: str,
        reader: tuple[str, tuple[int, ...]] | None = None,
        cell: tuple[str, tuple[int, ...]] | None = None,
    ) -> None:
        super().__init__(message)
        self.reader = reader
        self.cell = cell
