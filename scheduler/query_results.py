"""Results of queries about a schedule, and the budget of a query."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lathe.configs.html_repr import repr_html
from lathe.frontend.arith.polyhedra import OPERATIONS_LIMIT, TooManyOperationsError, limited_operations
from lathe.scheduler.errors import PaddingWitness, ScheduleError, Witness


@dataclass(frozen=True)
class QueryResult:
    """Yes or no, with the reason; true in a condition iff it is yes. A ``witness`` may show why it is no."""

    holds: bool
    reason: str
    witness: Witness | PaddingWitness | None = None

    _repr_html_ = repr_html

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return f"{'yes' if self.holds else 'no'}: {self.reason}"


class QueryBudgetExceeded(Exception):  # noqa: N818 - a result, which ``answerable`` converts to a ScheduleError
    """A query exceeds its budget: the budget, and how to make the query easier."""

    def __init__(self, budget: str, remedy: str) -> None:
        super().__init__(budget, remedy)
        self.budget = budget
        self.remedy = remedy


@contextmanager
def answerable(question: str) -> Iterator[None]:
    """Raises ScheduleError if a query exceeds its budget, so that none can hang."""
    try:
        with limited_operations():
            yield
        return
    except TooManyOperationsError:
        budget, remedy = (
            f"within {OPERATIONS_LIMIT} isl operations",
            "Use fewer splits and fused loops around these stages.",
        )
    except QueryBudgetExceeded as error:
        budget, remedy = error.budget, error.remedy
    raise ScheduleError(f"Cannot decide {question} {budget}. {remedy}", kind="limit")
