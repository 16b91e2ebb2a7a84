"""Errors raised for invalid tensor programs."""

from lathe.configs.array_args import InputError
from lathe.configs.errors import LatheError, shown

__all__ = ["CausalityError", "DomainError", "InputError", "LatheError", "TensorError", "shown"]


class TensorError(LatheError):
    """An invalid tensor, axis or expression: wrong dtype, shape, number of indices or name."""


class DomainError(LatheError):
    """A computation reads outside the domain of a tensor; the message names one such point."""


class ParameterError(LatheError):
    """Invalid values of a program's parameters: missing, unknown or out of range."""


class CausalityError(LatheError):
    """A recurrence is not causal: no order of its computations computes each element before it is read.

    ``reader`` is the name of a computation and the point at which it reads, ``cell`` the tensor and element read there.
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
