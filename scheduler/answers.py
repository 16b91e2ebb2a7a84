"""What a question about a schedule is answered with."""

from dataclasses import dataclass

from lathe.scheduler.errors import Witness


@dataclass(frozen=True)
class Answer:
    """Yes or no, and why: true in a condition iff the answer is yes; ``witness`` shows two instances where it is no."""

    holds: bool
    reason: str
    witness: Witness | None = None

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return f"{'yes' if self.holds else 'no'}: {self.reason}"
