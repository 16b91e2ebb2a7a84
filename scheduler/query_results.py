"""What a question about a schedule is answered with."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lathe.configs.html_repr import repr_html
from lathe.frontend.arith.polyhedra import OPERATIONS_LIMIT, TooManyOperationsError, limited_operations
from lathe.scheduler.errors import PaddingWitness, ScheduleError, Witness


@dataclass(frozen=True)
class Answer:
    """Yes or no, and why: true in a condition iff the answer is yes; ``witness`` shows two instances where it is no."""

    holds: bool
    reason: str
    witness: Witness | PaddingWitness | None = None

    _repr_html_ = repr_html

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return f"{'yes' if self.holds else 'no'}: {self.reason}"


class QueryBudgetExceeded(Exception):  # noqa: N818 - an answer, which ``answerable`` turns into a ScheduleError
    """A question takes more than may be spent on it: what that is, and how to make it easier."""

    def __init__(self, budget: str, remedy: str) -> None:
        super().__init__(budget, remedy)
        self.budget = budget
        self.remedy = remedy


@contextmanager
def answerable(question: str) -> Iterator[None]:
    """Raises ScheduleError where a question takes more than it may, so that none can hang."""
    try:
        with limited_operations():
            yield
        return
    except TooManyOperationsError:
        budget, remedy = (
            f"within {OPERATIONS_LIMIT} isl operations",
            "Use fewer splits and fused loops around it.",
        )
    except QueryBudgetExceeded as error:
        budget, remedy = error.budget, error.remedy
    raise ScheduleError(f"{question} must be decided {budget}, and takes more. {remedy}", kind="limit")
