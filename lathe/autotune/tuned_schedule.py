"""What the optimiser returns: a schedule, with its steps, and what else has been tried."""

from dataclasses import dataclass

from lathe.autotune.primitive_trace import Step
from lathe.autotune.script import script_of
from lathe.scheduler import Schedule
from lathe.scheduler.schedule_trace import TraceEntry


@dataclass(frozen=True)
class Tried:
    """A candidate: what it is, and its cycles; None where it does not fit the machine."""

    what: str
    cycles: int | None


class FoundSchedule(Schedule):
    """The best schedule of those tried, as any other schedule; printed, it is a script of public commands.

    ``steps`` are the commands, ``cycles`` what the simulator takes for it, ``tried`` all candidates in order, ``bound``
    the cycles that no schedule can be quicker than (``lt.bound``), and ``limit`` which of compute and memory that is.
    ``was_kept``: it has been read from a cache, and not been built since.
    """

    begun: tuple[TraceEntry, ...] | None
    """The commands of the schedule that it completes; None where they are not known."""
    steps: tuple[Step, ...]
    cycles: int
    tried: tuple[Tried, ...]
    machine: str
    bound: int
    limit: str
    was_kept: bool = False

    @property
    def script(self) -> str:
        """A Python function that makes this schedule of the program's outputs.

        It begins with the commands of a schedule that was begun by hand, as far as all of them can be printed. Where
        one cannot, which takes a Python function, say, or of a fork, it goes on from the begun schedule, its argument.
        """
        share = self.bound / self.cycles
        heading = (
            f"Found for machine {self.machine!r} among {len(self.tried)} candidates: {self.cycles:,} cycles, of which "
            f"the bound, by {self.limit}, is {share:.1%}."
        )
        return script_of(self.steps, self.begun, heading)

    def __str__(self) -> str:
        return self.script

    def report(self, most: int = 8) -> str:
        """The candidates, the quickest first, and what bounds the program."""
        ran = sorted((each for each in self.tried if each.cycles is not None), key=lambda each: each.cycles or 0)
        lines = [f"{each.cycles:>14,}  {each.what}" for each in ran[:most]]
        rest = len(self.tried) - len(ran)
        lines.append(f"{self.bound:>14,}  bound, by {self.limit}")
        return "\n".join([*lines, *([f"{rest} more do not fit the machine"] if rest else [])])
