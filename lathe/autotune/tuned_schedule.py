"""Result of the autotuner: the best schedule, with its steps and all candidates."""

from dataclasses import dataclass

from lathe.autotune.primitive_trace import Step
from lathe.autotune.script import script_of
from lathe.scheduler import Schedule
from lathe.scheduler.schedule_trace import TraceEntry


@dataclass(frozen=True)
class Candidate:
    """A candidate: its description, and its cycles, or None if it does not fit the machine."""

    what: str
    cycles: int | None


class TunedSchedule(Schedule):
    """The fastest schedule of those tried; printed, it is a script of public primitives.

    ``steps``: the autotuner's primitives; ``cycles``: its simulated cycles; ``tried``: all candidates in order;
    ``bound``: the lower bound on the cycles of any schedule (``lt.bound``); ``limit``: whether compute or memory
    determines that bound; ``was_kept``: it was read from the cache and may fail to build.
    """

    begun: tuple[TraceEntry, ...] | None
    """The user's primitives, which come before ``steps``; None if unknown."""
    steps: tuple[Step, ...]
    cycles: int
    tried: tuple[Candidate, ...]
    machine: str
    bound: int
    limit: str
    was_kept: bool = False

    @property
    def script(self) -> str:
        """A Python function, as text, that creates this schedule from the program's outputs.

        It begins with the user's primitives. If these cannot be printed (one takes a Python function, say, or the
        schedule is a fork), it is a function of the user's schedule.
        """
        share = self.bound / self.cycles
        heading = (
            f"Best of {len(self.tried)} candidates for machine {self.machine!r}: {self.cycles:,} cycles; the lower "
            f"bound, by {self.limit}, is {share:.1%} of these."
        )
        return script_of(self.steps, self.begun, heading)

    def __str__(self) -> str:
        return self.script

    def report(self, most: int = 8) -> str:
        """The fastest ``most`` candidates, and the lower bound, as text."""
        ran = sorted((each for each in self.tried if each.cycles is not None), key=lambda each: each.cycles or 0)
        lines = [f"{each.cycles:>14,}  {each.what}" for each in ran[:most]]
        rest = len(self.tried) - len(ran)
        lines.append(f"{self.bound:>14,}  lower bound, by {self.limit}")
        return "\n".join([*lines, *([f"{rest} more do not fit the machine"] if rest else [])])
