"""What a question about a schedule is answered with."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import islpy as isl

from lathe.frontend.polyhedra import OPERATIONS_LIMIT, limited_operations
from lathe.scheduler.errors import PaddingWitness, ScheduleError, Witness


@dataclass(frozen=True)
class Answer:
    """Yes or no, and why: true in a condition iff the answer is yes; ``witness`` shows two instances where it is no."""

    holds: bool
    reason: str
    witness: Witness | PaddingWitness | None = None

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return f"{'yes' if self.holds else 'no'}: {self.reason}"


@contextmanager
def answerable(question: str) -> Iterator[None]:
    """Raises ScheduleError where a question takes more isl operations than it may, so that none can hang."""
    try:
        with limited_operations():
            yield
    except isl.Error:
        raise ScheduleError(
            f"{question} must be decided within {OPERATIONS_LIMIT} isl operations, and takes more. Use fewer splits "
            "and fused loops around it.",
            kind="limit",
        ) from None


@contextmanager
def checkable(command: str, tensor: str, reader: str) -> Iterator[None]:
    """Raises ScheduleError where the check of one read takes more isl operations than it may."""
    try:
        with limited_operations():
            yield
    except isl.Error:
        raise ScheduleError(
            f"{command} must leave a schedule that can be checked within {OPERATIONS_LIMIT} isl operations per read, "
            f"not one in which the read of {tensor} by {reader} takes more. Use fewer splits and fused loops around "
            "it.",
            kind="limit",
        ) from None
